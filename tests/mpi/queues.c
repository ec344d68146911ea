/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queues.c - a debugger sees the requests of a stopped rank.
 *
 *   mpiexec -n 2 queues LIBRARY      LIBRARY: Open MPI's libompi_dbg_msgq.so
 *
 * Rank 0 posts receives, starts a synchronous send that nobody receives, completes some other
 * requests of both kinds, and stops itself.  Rank 1 is the debugger: it loads the library that
 * Open MPI ships for debuggers, answers its questions, reads the memory of the stopped process,
 * and compares the library's output about the queues of two communicators.  Types come from
 * Open MPI's headers instead of debugging information, and addresses of symbols from rank 0.
 */
#include <ompi_config.h>
#if !__has_include(<ompi/peruse/peruse.h>)
#define _PERUSE_INTERNAL_H_
#endif
#include <ompi/communicator/communicator.h>
#include <ompi/datatype/ompi_datatype.h>
#include <ompi/debuggers/msgq_interface.h>
#include <ompi/group/group.h>
#include <ompi/mca/pml/base/pml_base_recvreq.h>
#include <ompi/mca/pml/base/pml_base_sendreq.h>
#include <ompi/mca/topo/topo.h>
#include <ompi/request/request.h>
#include <opal/class/opal_hash_table.h>

#include "../support/debugger.h"
#include "check.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/* ---- the library's questions ---- */

struct field {
    const char *type, *name; /* name NULL: offset is the size of the type */
    size_t offset;
};

#define SIZE(type)                                                                             \
    {                                                                                          \
#type, NULL, sizeof(type)                                                              \
    }
#define FIELD(type, name)                                                                      \
    {                                                                                          \
#type, #name, offsetof(type, name)                                                     \
    }

static const struct field fields[] = {
    SIZE(opal_list_item_t),
    FIELD(opal_list_item_t, opal_list_next),
    SIZE(opal_list_t),
    FIELD(opal_list_t, opal_list_sentinel),
    SIZE(opal_free_list_item_t),
    SIZE(opal_free_list_t),
    FIELD(opal_free_list_t, fl_mpool),
    FIELD(opal_free_list_t, fl_allocations),
    FIELD(opal_free_list_t, fl_frag_class),
    FIELD(opal_free_list_t, fl_frag_size),
    FIELD(opal_free_list_t, fl_frag_alignment),
    FIELD(opal_free_list_t, fl_max_to_alloc),
    FIELD(opal_free_list_t, fl_num_per_alloc),
    FIELD(opal_free_list_t, fl_num_allocated),
    SIZE(opal_hash_table_t),
    FIELD(opal_hash_table_t, ht_table),
    FIELD(opal_hash_table_t, ht_size),
    SIZE(ompi_request_t),
    FIELD(ompi_request_t, req_type),
    FIELD(ompi_request_t, req_status),
    FIELD(ompi_request_t, req_complete),
    FIELD(ompi_request_t, req_state),
    FIELD(ompi_request_t, req_f_to_c_index),
    SIZE(mca_pml_base_request_t),
    FIELD(mca_pml_base_request_t, req_addr),
    FIELD(mca_pml_base_request_t, req_count),
    FIELD(mca_pml_base_request_t, req_peer),
    FIELD(mca_pml_base_request_t, req_tag),
    FIELD(mca_pml_base_request_t, req_comm),
    FIELD(mca_pml_base_request_t, req_datatype),
    FIELD(mca_pml_base_request_t, req_proc),
    FIELD(mca_pml_base_request_t, req_sequence),
    FIELD(mca_pml_base_request_t, req_type),
    FIELD(mca_pml_base_request_t, req_pml_complete),
    SIZE(mca_pml_base_send_request_t),
    FIELD(mca_pml_base_send_request_t, req_addr),
    FIELD(mca_pml_base_send_request_t, req_bytes_packed),
    FIELD(mca_pml_base_send_request_t, req_send_mode),
    SIZE(mca_pml_base_recv_request_t),
    FIELD(mca_pml_base_recv_request_t, req_bytes_packed),
    SIZE(opal_pointer_array_t),
    FIELD(opal_pointer_array_t, lowest_free),
    FIELD(opal_pointer_array_t, number_free),
    FIELD(opal_pointer_array_t, size),
    FIELD(opal_pointer_array_t, addr),
    SIZE(ompi_communicator_t),
    FIELD(ompi_communicator_t, c_name),
    FIELD(ompi_communicator_t, c_contextid),
    FIELD(ompi_communicator_t, c_my_rank),
    FIELD(ompi_communicator_t, c_local_group),
    FIELD(ompi_communicator_t, c_remote_group),
    FIELD(ompi_communicator_t, c_flags),
    FIELD(ompi_communicator_t, c_f_to_c_index),
    FIELD(ompi_communicator_t, c_topo),
    FIELD(ompi_communicator_t, c_keyhash),
    SIZE(ompi_group_t),
    FIELD(ompi_group_t, grp_proc_count),
    FIELD(ompi_group_t, grp_proc_pointers),
    FIELD(ompi_group_t, grp_my_rank),
    FIELD(ompi_group_t, grp_flags),
    SIZE(ompi_status_public_t),
    FIELD(ompi_status_public_t, MPI_SOURCE),
    FIELD(ompi_status_public_t, MPI_TAG),
    FIELD(ompi_status_public_t, MPI_ERROR),
    FIELD(ompi_status_public_t, _ucount),
    FIELD(ompi_status_public_t, _cancelled),
    SIZE(ompi_datatype_t),
    FIELD(ompi_datatype_t, name),
    FIELD(ompi_datatype_t, super),
    SIZE(opal_datatype_t),
    FIELD(opal_datatype_t, size),
    /* topologies, which are not used here */
    SIZE(mca_topo_base_module_t),
    {"mca_topo_base_comm_cart_2_2_0_t", NULL, 64},
    {"mca_topo_base_comm_graph_2_2_0_t", NULL, 64},
    {"mca_topo_base_comm_dist_graph_2_2_0_t", NULL, 64},
};

/* The symbols of rank 0 that the library looks up. */
static const char *const symbols[] = {"MPIR_debug_typedefs_sizeof", "ompi_mpi_communicators",
                                      "mca_pml_base_send_requests",
                                      "mca_pml_base_recv_requests"};
#define SYMBOLS (sizeof symbols / sizeof symbols[0])

struct stopped {
    pid_t pid;
    uint64_t addresses[SYMBOLS];
};

static struct stopped stopped;
static struct target target;

static const struct field *field_of(const char *type, const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(fields[i].type, type) == 0 &&
            (name == NULL ? fields[i].name == NULL
                          : fields[i].name != NULL && strcmp(fields[i].name, name) == 0))
            return &fields[i];
    return NULL;
}

static mqs_type *find_type(mqs_image *image, char *name, mqs_lang_code language)
{
    (void)image;
    (void)language;
    return (mqs_type *)(uintptr_t)field_of(name, NULL);
}

static int field_offset(mqs_type *type, char *name)
{
    const struct field *found = field_of(((const struct field *)type)->type, name);

    return found == NULL ? 0 : (int)found->offset; /* fields of topologies */
}

static int size_of(mqs_type *type)
{
    return (int)((const struct field *)type)->offset;
}

static int find_symbol(mqs_image *image, char *name, mqs_taddr_t *address)
{
    (void)image;
    for (size_t i = 0; i < SYMBOLS; i++) {
        if (strcmp(symbols[i], name) != 0)
            continue;
        *address = stopped.addresses[i];
        return mqs_ok;
    }
    return mqs_no_information;
}

static const mqs_image_callbacks image_callbacks = {type_sizes, find_function, find_symbol,
                                                    find_type,  field_offset,  size_of};
/* ---- the library's answers ---- */

static mqs_process *process(void)
{
    return process_of_target(&target);
}

static void attach(const char *path)
{
    mqs_image *image = image_of_target(&target);
    char *message;

    target.pid = stopped.pid;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    CALL(mqs_setup_basic_callbacks, &basic);
    CHECK_EQUAL(CALL(mqs_setup_image, image, &image_callbacks), mqs_ok);
    CHECK_EQUAL(CALL(mqs_image_has_queues, image, &message), mqs_ok);
    CHECK_EQUAL(CALL(mqs_setup_process, process(), &process_calls), mqs_ok);
    CHECK_EQUAL(CALL(mqs_process_has_queues, process(), &message), mqs_ok);
    CHECK_EQUAL(CALL(mqs_update_communicator_list, process()), mqs_ok);
}

/* Selects the communicator with this name. */
static void look_at(const char *name)
{
    mqs_communicator comm;

    CHECK_EQUAL(CALL(mqs_setup_communicator_iterator, process()), mqs_ok);
    for (;;) {
        CHECK_EQUAL(CALL(mqs_get_communicator, process(), &comm), mqs_ok);
        if (strcmp(comm.name, name) == 0)
            break;
        CHECK_EQUAL(CALL(mqs_next_communicator, process()), mqs_ok);
    }
    CHECK_EQUAL(comm.size, 2);
    CHECK_EQUAL(comm.local_rank, 0);
}

/* Expects pending operations of one kind with these tags, each once; tags are bits (any tag:
 * bit 0). */
static void expect_pending(mqs_op_class kind, unsigned tags, int peer, int length)
{
    mqs_pending_operation op;
    unsigned seen = 0;

    CHECK_EQUAL(CALL(mqs_setup_operation_iterator, process(), (int)kind), mqs_ok);
    while (CALL(mqs_next_operation, process(), &op) == mqs_ok) {
        unsigned bit = op.tag_wild ? 1 : 1u << op.desired_tag;

        if (op.status != mqs_st_pending)
            continue;
        CHECK_EQUAL(seen & bit, 0);
        seen |= bit;
        CHECK_EQUAL(op.desired_length, length);
        CHECK_EQUAL((int)op.desired_local_rank, op.tag_wild ? MPI_ANY_SOURCE : peer);
    }
    CHECK_EQUAL(seen, tags);
}

/* ---- the two ranks ----------------------------------------------------------------------- */

static void describe_self(void)
{
    stopped.pid = getpid();
    for (size_t i = 0; i < SYMBOLS; i++) {
        stopped.addresses[i] = (uintptr_t)dlsym(RTLD_DEFAULT, symbols[i]);
        CHECK(stopped.addresses[i] != 0);
    }
}

static void be_stopped(MPI_Comm named)
{
    static char in[8][16], out[16];
    MPI_Request requests[6];
    MPI_Status statuses[6];

    describe_self();
    /* some requests that are over before the look */
    for (int i = 0; i < 100; i++)
        MPI_Sendrecv(out, 16, MPI_CHAR, 0, i % 8, in[0], 16, MPI_CHAR, 0, MPI_ANY_TAG, named,
                     MPI_STATUS_IGNORE);
    MPI_Irecv(in[0], 16, MPI_CHAR, 1, 3, named, &requests[0]);
    MPI_Irecv(in[1], 16, MPI_CHAR, 1, 5, named, &requests[1]);
    MPI_Irecv(in[2], 16, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, named, &requests[2]);
    MPI_Irecv(in[3], 16, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &requests[3]);
    MPI_Issend(out, 16, MPI_CHAR, 1, 9, named, &requests[4]);
    MPI_Send(&stopped, sizeof stopped, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    raise(SIGSTOP);
    MPI_Waitall(5, requests, statuses);
}

static void wait_until_stopped(pid_t pid)
{
    char path[64], state = ' ';

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (state != 'T') {
        FILE *file = fopen(path, "r");

        CHECK(file != NULL);
        CHECK_EQUAL(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
        sched_yield();
    }
}

static void debug(const char *path, MPI_Comm named)
{
    char out[16] = "", in[16];

    MPI_Recv(&stopped, sizeof stopped, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wait_until_stopped(stopped.pid);
    attach(path);
    look_at("a name of its own");
    expect_pending(mqs_pending_receives, 1u << 3 | 1u << 5 | 1u, 1, 16);
    expect_pending(mqs_pending_sends, 1u << 9, 1, 16);
    look_at("MPI_COMM_WORLD");
    expect_pending(mqs_pending_receives, 1u << 7, 1, 16);
    expect_pending(mqs_pending_sends, 0, 1, 16);
    kill(stopped.pid, SIGCONT);
    for (int tag = 3; tag <= 7; tag += 2)
        MPI_Send(out, 16, MPI_CHAR, 0, tag, tag == 7 ? MPI_COMM_WORLD : named);
    MPI_Send(out, 16, MPI_CHAR, 0, 11, named);
    MPI_Recv(in, 16, MPI_CHAR, 0, 9, named, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Comm named;

    start(&argc, &argv);
    CHECK(argc == 2 && ranks == 2);
    MPI_Comm_dup(MPI_COMM_WORLD, &named);
    MPI_Comm_set_name(named, "a name of its own");
    if (rank == 0)
        be_stopped(named);
    else
        debug(argv[1], named);
    MPI_Comm_free(&named);
    return finish("queues");
}
