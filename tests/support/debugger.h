/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * debugger.h - the callbacks of a debugger for a message queue library, where debugger and
 * process have the same architecture.
 *
 * For files that are a debugger.  Such a file includes the header of the interface first, has
 * its own find_symbol(), find_type(), field_offset() and size_of(), and calls the library by
 * CALL().
 */
#ifndef TESTS_SUPPORT_DEBUGGER_H
#define TESTS_SUPPORT_DEBUGGER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* A process that is stopped.  The library gets the address of this, as the process and as its
 * image. */
struct target {
    long pid;
    unsigned long root; /* the address of mbx_see_root; 0: there is none */
    mqs_image_info *image_info;
    mqs_process_info *process_info;
};

static uint64_t fetched; /* number of reads of memory */

static struct target *target_of(const void *handle)
{
    return (struct target *)(uintptr_t)handle;
}

static mqs_image *image_of_target(struct target *target)
{
    return (mqs_image *)(void *)target;
}

static mqs_process *process_of_target(struct target *target)
{
    return (mqs_process *)(void *)target;
}

static void print(const char *text)
{
    fprintf(stderr, "%s", text);
}

static char *error_text(int error)
{
    static char text[] = "an error";

    (void)error;
    return text;
}

static void put_image_info(mqs_image *image, mqs_image_info *info)
{
    target_of(image)->image_info = info;
}

static mqs_image_info *get_image_info(mqs_image *image)
{
    return target_of(image)->image_info;
}

static void put_process_info(mqs_process *process, mqs_process_info *info)
{
    target_of(process)->process_info = info;
}

static mqs_process_info *get_process_info(mqs_process *process)
{
    return target_of(process)->process_info;
}

static void type_sizes(mqs_process *process, mqs_target_type_sizes *sizes)
{
    (void)process;
    *sizes =
        (mqs_target_type_sizes){sizeof(short),  sizeof(int),  sizeof(long),  sizeof(long long),
                                sizeof(void *), sizeof(bool), sizeof(size_t)};
}

static int find_function(mqs_image *image, char *name, mqs_lang_code language,
                         mqs_taddr_t *address)
{
    (void)image;
    (void)name;
    (void)language;
    (void)address;
    return mqs_no_information;
}

static int fetch_data(mqs_process *process, mqs_taddr_t from, int size, void *to)
{
    struct iovec here = {to, (size_t)size}, there = {(void *)from, (size_t)size};

    fetched++;
    return process_vm_readv((pid_t)target_of(process)->pid, &here, 1, &there, 1, 0) == size
               ? mqs_ok
               : mqs_no_information;
}

static void target_to_host(mqs_process *process, const void *from, void *to, int size)
{
    (void)process;
    memcpy(to, from, (size_t)size);
}

static int global_rank(mqs_process *process)
{
    (void)process;
    return 0;
}

static mqs_image *image_of(mqs_process *process)
{
    return (mqs_image *)process;
}

static const mqs_basic_callbacks basic = {
    malloc,          free, print, error_text, put_image_info, get_image_info, put_process_info,
    get_process_info};
static const mqs_process_callbacks process_calls = {global_rank, image_of, fetch_data,
                                                    target_to_host};

/* ---- calls into the library ---- */

static void *library;

static void *entry(const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        fprintf(stderr, "debugger: the library has no %s\n", name);
        exit(1);
    }
    return found;
}

#define CALL(function, ...) ((__typeof__(&function))entry(#function))(__VA_ARGS__)

#endif
