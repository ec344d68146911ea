/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standalone.c - runs a fuzz target without a fuzzer: the files of a corpus, then inputs
 * from seeds.
 *
 *   wire_fuzz_test RANDOM-INPUTS CORPUS      likewise for each other target
 *
 * Random inputs are half noise, half concatenated pieces of the files.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "fuzz/program.h"

#define INPUT_MAX 1024
#define FILES_MAX 1024

struct file {
    uint8_t data[INPUT_MAX];
    size_t size;
};

static struct file *files;
static size_t file_count;

/* A file that is longer than the limit is refused: the rest would never be tested. */
static int refuse(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    return -1;
}

static int read_file(const char *folder, const char *name)
{
    char path[4096];
    struct file *file = &files[file_count];
    bool has_failed, is_longer;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (file_count == FILES_MAX)
        return refuse(path, "one file more than standalone.c has space for (FILES_MAX)");
    f = fopen(path, "rb");
    if (f == NULL)
        return refuse(path, strerror(errno));
    file->size = fread(file->data, 1, INPUT_MAX, f);
    is_longer = file->size == INPUT_MAX && fgetc(f) != EOF;
    has_failed = ferror(f) != 0;
    fclose(f);
    if (has_failed)
        return refuse(path, "cannot be read");
    if (is_longer)
        return refuse(path, "longer than standalone.c reads (INPUT_MAX)");
    file_count++;
    return 0;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Reads the files in the order of their names, so that seeds are reproducible. */
static int read_corpus(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_shown, alphasort), err = 0;

    if (count < 0) {
        perror(folder);
        return -1;
    }
    for (int i = 0; i < count; i++) {
        if (err == 0)
            err = read_file(folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return err;
}

static size_t make_noise(struct random *r, uint8_t *data)
{
    size_t size = random_below(r, INPUT_MAX);

    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)random_next(r);
    return size;
}

static size_t make_patchwork(struct random *r, uint8_t *data)
{
    size_t size = 0;

    for (int pieces = (int)random_below(r, 8); pieces >= 0; pieces--) {
        const struct file *from = &files[random_below(r, file_count)];
        size_t first = random_below(r, from->size + 1);

        for (size_t i = first; i < from->size && size < INPUT_MAX; i++)
            data[size++] = random_below(r, 20) == 0 ? (uint8_t)random_next(r) : from->data[i];
    }
    return size;
}

int main(int argc, char **argv)
{
    uint8_t data[INPUT_MAX];
    struct random r;
    uint64_t count;
    char *end;

    if (argc != 3) {
        bool is_asked = argc == 2 && strcmp(argv[1], "--help") == 0;

        fprintf(is_asked ? stdout : stderr, "usage: %s RANDOM-INPUTS CORPUS\n", argv[0]);
        return is_asked ? 0 : 2;
    }
    count = strtoull(argv[1], &end, 10);
    if (*argv[1] < '0' || *argv[1] > '9' || *end != '\0') {
        fprintf(stderr, "%s: RANDOM-INPUTS is a number, not '%s'\n", argv[0], argv[1]);
        return 2;
    }
    files = calloc(FILES_MAX, sizeof *files);
    if (files == NULL) {
        fprintf(stderr, "%s: no memory\n", argv[0]);
        return 2;
    }
    if (read_corpus(argv[2]) < 0)
        return 2;
    for (size_t i = 0; i < file_count; i++)
        LLVMFuzzerTestOneInput(files[i].data, files[i].size);
    for (uint64_t seed = 1; seed <= count; seed++) {
        size_t size;

        random_seed(&r, seed);
        size =
            seed % 2 == 0 || file_count == 0 ? make_noise(&r, data) : make_patchwork(&r, data);
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("%zu files, %llu inputs from seeds\n", file_count, (unsigned long long)count);
    free(files);
    return 0;
}
