/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msgq_host.c - a debugger that knows only the interface for message queues, for tests of
 * libmatchbox-msgq.so.
 *
 * usage: msgq_host LIBRARY PID ROOT [PID ROOT]...
 *
 * ROOT is the address of mbx_see_root in process PID, which is stopped; 0: there is no such
 * symbol.  Prints the library's answers for the first process, after it has seen all: `comm ID
 * SIZE RANK NAME`, followed by a line for each operation, `CLASS STATUS RANK WILD TAG LENGTH
 * TEXT; TEXT`; `none STATUS MESSAGE` if it reports no queues.
 *
 * It is compiled with Open MPI's header of that interface where that is installed, so that
 * Matchbox's declarations are compared with that header's.
 */
#if MSGQ_OTHERS
#include <ompi_config.h>
#include <ompi/debuggers/msgq_interface.h>
#else
#include "msgq/interface.h"
#endif

#include "debugger.h"

#define TARGETS 8

static struct target targets[TARGETS];
static int target_count;

#define IMAGE(i)   image_of_target(&targets[i])
#define PROCESS(i) process_of_target(&targets[i])

/* ---- callbacks for the library ---- */

static int find_symbol(mqs_image *image, char *name, mqs_taddr_t *address)
{
    if (target_of(image)->root == 0 || strcmp(name, "mbx_see_root") != 0)
        return mqs_no_information;
    *address = target_of(image)->root;
    return mqs_ok;
}

/* A debugger without debug information. */
static mqs_type *find_type(mqs_image *image, char *name, mqs_lang_code language)
{
    (void)image;
    (void)name;
    (void)language;
    return NULL;
}

static int field_offset(mqs_type *type, char *name)
{
    (void)type;
    (void)name;
    return -1;
}

static int size_of(mqs_type *type)
{
    (void)type;
    return 0;
}

static const mqs_image_callbacks image_calls = {type_sizes, find_function, find_symbol,
                                                find_type,  field_offset,  size_of};
/* ---- answers of the library ---- */

static void must(int status, const char *what)
{
    if (status == mqs_ok)
        return;
    fprintf(stderr, "msgq_host: %s: %s\n", what, CALL(mqs_dll_error_string, status));
    exit(1);
}

static void show_class(int class, const char *name)
{
    mqs_pending_operation op;
    int status;

    must(CALL(mqs_setup_operation_iterator, PROCESS(0), class), name);
    while ((status = CALL(mqs_next_operation, PROCESS(0), &op)) == mqs_ok)
        printf("%s %d %ld %d %ld %ld %s; %s\n", name, op.status, (long)op.desired_global_rank,
               op.tag_wild, (long)op.desired_tag, (long)op.desired_length, op.extra_text[0],
               op.extra_text[1]);
    if (status != mqs_end_of_list)
        must(status, "mqs_next_operation");
}

static void show_communicator(void)
{
    mqs_communicator comm;
    int *group;

    must(CALL(mqs_get_communicator, PROCESS(0), &comm), "mqs_get_communicator");
    printf("comm %lu %ld %ld %s\n", (unsigned long)comm.unique_id, (long)comm.size,
           (long)comm.local_rank, comm.name);
    group = calloc((size_t)comm.size + 1, sizeof *group);
    if (group != NULL && CALL(mqs_get_comm_group, PROCESS(0), group) == mqs_ok)
        for (long i = 0; i < comm.size; i++)
            if (group[i] != i)
                fprintf(stderr, "msgq_host: rank %ld of the world is %d\n", i, group[i]);
    free(group);
    show_class(mqs_pending_sends, "send");
    show_class(mqs_pending_receives, "receive");
    show_class(mqs_unexpected_messages, "unexpected");
}

/* Does the process have queues? */
static bool set_up(int i)
{
    char *message = NULL;
    int status;

    must(CALL(mqs_setup_image, IMAGE(i), &image_calls), "mqs_setup_image");
    must(CALL(mqs_image_has_queues, IMAGE(i), &message), "mqs_image_has_queues");
    must(CALL(mqs_setup_process, PROCESS(i), &process_calls), "mqs_setup_process");
    status = CALL(mqs_process_has_queues, PROCESS(i), &message);
    if (status != mqs_ok)
        printf("none %d %s\n", status, message);
    else
        must(CALL(mqs_update_communicator_list, PROCESS(i)), "mqs_update_communicator_list");
    return status == mqs_ok;
}

static int show_all(void)
{
    int status = mqs_ok;

    CALL(mqs_setup_basic_callbacks, &basic);
    if (CALL(mqs_version_compatibility) != 2 ||
        CALL(mqs_dll_taddr_width) != (int)sizeof(mqs_taddr_t) ||
        strlen(CALL(mqs_version_string)) == 0)
        return 1;
    for (int i = 0; i < target_count; i++)
        if (!set_up(i))
            status = mqs_no_information;
    if (status == mqs_ok)
        status = CALL(mqs_setup_communicator_iterator, PROCESS(0));
    for (; status == mqs_ok; status = CALL(mqs_next_communicator, PROCESS(0)))
        show_communicator();
    printf("fetched %llu\n", (unsigned long long)fetched);
    for (int i = 0; i < target_count; i++) {
        CALL(mqs_destroy_process_info, targets[i].process_info);
        CALL(mqs_destroy_image_info, targets[i].image_info);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc % 2 != 0 || argc > 2 + 2 * TARGETS)
        return 2;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "msgq_host: %s\n", dlerror());
        return 1;
    }
    for (int i = 2; i < argc; i += 2)
        targets[target_count++] = (struct target){.pid = strtol(argv[i], NULL, 10),
                                                  .root = strtoul(argv[i + 1], NULL, 16)};
    return show_all();
}
