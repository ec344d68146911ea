/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_address_test.c - addresses: vectors of both types, names of nodes and services,
 * events of insertions, and invalid addresses.
 */
#include "provider_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct setup plain;
static int contexts[4]; /* their addresses are the op contexts */

/* A service name that no other run of this test uses. */
static const char *service(int nth)
{
    static char text[2][24];

    snprintf(text[nth % 2], sizeof text[0], "test-%d.%d", (int)getpid(), nth);
    return text[nth % 2];
}

static struct fi_info *info_of(const char *node, const char *name, uint64_t flags)
{
    struct fi_info *hints = fixture_hints(&plain), *info = NULL;
    int err = fi_getinfo(FI_VERSION(1, 17), node, name, flags, hints, &info);

    fi_freeinfo(hints);
    if (err != 0)
        assert_int_equal(err, -FI_ENODATA);
    return info;
}

/* Opens an endpoint with the name in info. */
static int open_named(struct fixture *fix, struct fi_info *info, struct fid_ep **ep)
{
    return fi_endpoint(fix->domain, info, ep, NULL);
}

static void bind_and_enable(struct fixture *fix, struct fid_ep *ep, struct fid_cq *cq)
{
    assert_int_equal(fi_ep_bind(ep, &fix->node[0].av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(ep), 0);
}

/* ---- names ----------------------------------------------------------------------------------
 */

static void a_service_is_found_by_name(void **state)
{
    struct fi_info *server, *client;
    struct fi_cq_tagged_entry e;
    uint64_t word = 0;
    struct fid_ep *ep;
    fi_addr_t addr;
    struct fixture fix;
    ssize_t n;

    (void)state;
    fixture_open(&fix, &plain);
    server = info_of(NULL, service(0), FI_SOURCE);
    client = info_of("localhost", service(0), 0);
    assert_int_equal(fi_av_insert(fix.node[1].av, client->dest_addr, 1, &addr, 0, NULL), 0);
    assert_int_equal(addr, FI_ADDR_NOTAVAIL); /* no endpoint has it yet */
    assert_int_equal(open_named(&fix, server, &ep), 0);
    bind_and_enable(&fix, ep, fix.node[0].cq);
    assert_int_equal(fi_av_insert(fix.node[1].av, client->dest_addr, 1, &addr, 0, NULL), 1);
    assert_int_equal(fi_trecv(ep, &word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[0]), 0);
    word = 77;
    assert_int_equal(fi_tinject(EP(fix, 1), &word, 8, addr, 1), 0);
    word = 0;
    n = fixture_read(&fix, 0, &e, NULL);
    assert_int_equal(n, 1);
    assert_int_equal(word, 77);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_av_insert(fix.node[1].av, client->dest_addr, 1, &addr, 0, NULL), 0);
    fi_freeinfo(server);
    fi_freeinfo(client);
    fixture_close(&fix);
}

static void a_service_has_one_owner(void **state)
{
    struct fi_info *first, *second;
    struct fid_ep *ep, *other;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    first = info_of(NULL, service(0), FI_SOURCE);
    second = info_of(NULL, service(1), FI_SOURCE);
    assert_int_equal(open_named(&fix, first, &ep), 0);
    assert_int_equal(open_named(&fix, first, &other), -FI_EADDRINUSE);
    assert_int_equal(fi_setname(&ep->fid, second->src_addr, second->src_addrlen), 0);
    assert_int_equal(open_named(&fix, first, &other), 0); /* it gets another one now */
    assert_int_equal(fi_setname(&other->fid, second->src_addr, second->src_addrlen),
                     -FI_EADDRINUSE);
    assert_int_equal(fi_setname(&other->fid, fix.node[0].address, FIXTURE_ADDRESS),
                     -FI_EOPNOTSUPP);
    assert_int_equal(fi_setname(&other->fid, first->src_addr, 4), -FI_EINVAL);
    assert_int_equal(fi_setname(&EP(fix, 0)->fid, first->src_addr, first->src_addrlen),
                     -FI_EOPBADSTATE);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&other->fid), 0);
    assert_int_equal(open_named(&fix, first, &ep), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    fi_freeinfo(first);
    fi_freeinfo(second);
    fixture_close(&fix);
}

/* Starts a process that has published a service, and does nothing until it is killed. */
static pid_t server_start(const char *name)
{
    struct fi_info *info;
    struct fid_ep *ep;
    struct fixture fix;
    int pipes[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fixture_open(&fix, &plain);
        info = info_of(NULL, name, FI_SOURCE);
        if (open_named(&fix, info, &ep) != 0 || write(pipes[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    close(pipes[0]);
    return pid;
}

static void server_kill(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Returns the file of a service. */
static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "/dev/shm/matchbox-name-%u-%s", (unsigned)geteuid(), name);
    return path;
}

static bool is_published(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* Only the kernel could remove the name of a killed process, and it does not. */
static void the_next_endpoint_removes_the_names_of_the_dead(void **state)
{
    const char *dead = service(0), *alive = service(1);
    pid_t first, second;
    struct fixture fix;

    (void)state;
    first = server_start(dead);
    second = server_start(alive);
    server_kill(first);
    fixture_open(&fix, &plain);
    assert_false(is_published(dead));
    assert_true(is_published(alive));
    fixture_close(&fix);
    server_kill(second);
    fixture_open(&fix, &plain);
    assert_false(is_published(alive));
    fixture_close(&fix);
}

static const char *victim(void)
{
    static char path[64];

    snprintf(path, sizeof path, "/dev/shm/matchbox-victim-%d", (int)getpid());
    return path;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(path_of(service(0)));
    unlink(victim());
    return 0;
}

/* A client that looks the service up, and a server that tries to take its name, both get an
 * answer, whatever file is there. */
static void try_what_lies_there(int published)
{
    struct fi_info *server, *client;
    struct fixture fix;
    struct fid_ep *ep;
    fi_addr_t addr;
    int err;

    fixture_open(&fix, &plain);
    server = info_of(NULL, service(0), FI_SOURCE);
    client = info_of("localhost", service(0), 0);
    assert_int_equal(fi_av_insert(fix.node[1].av, client->dest_addr, 1, &addr, 0, NULL), 0);
    assert_int_equal(addr, FI_ADDR_NOTAVAIL);
    err = open_named(&fix, server, &ep);
    assert_int_equal(err, published);
    if (err == 0)
        fi_close(&ep->fid);
    fi_freeinfo(server);
    fi_freeinfo(client);
    fixture_close(&fix);
}

/* Any user can make a pipe in the folder of names.  Its owner is another user if this process
 * is allowed to change owners. */
static void a_pipe_in_the_place_of_a_name_is_not_waited_for(void **state)
{
    const char *path = path_of(service(0));

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(chmod(path, 0666), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(path, 1, 1), 0);
    try_what_lies_there(-FI_EACCES);
}

static void a_file_with_two_names_is_not_written_to(void **state)
{
    const char *path = path_of(service(0));
    char text[8] = "";
    int fd = open(victim(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "mine", 4), 4);
    assert_int_equal(link(victim(), path), 0);
    try_what_lies_there(-FI_EACCES);
    assert_int_equal(pread(fd, text, sizeof text, 0), 4);
    assert_string_equal(text, "mine");
    close(fd);
}

static void nodes_and_services_are_checked(void **state)
{
    static const struct {
        const char *node, *service;
        uint64_t flags;
        bool is_good, has_dest;
    } cases[] = {
        {"127.0.0.1", "7471", 0, true, true},
        {"127.0.0.1", NULL, 0, true, true},
        {"localhost", "7471", 0, true, true},
        {NULL, "echo", 0, true, true},
        {"127.0.0.1", "7471", FI_SOURCE, true, false},
        {"127.0.0.1", NULL, FI_SOURCE, true, false},
        {"127.0.0.1", "7471", FI_NUMERICHOST, true, true},
        {"localhost", "7471", FI_NUMERICHOST, false, false}, /* not a number */
        {"192.0.2.1", "7471", FI_NUMERICHOST, false, false}, /* not this machine */
        {NULL, "../etc", 0, false, false},
        {NULL, "a-service-of-24-letters.", 0, false, false},
        {"127.0.0.1", "", 0, false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fi_info *info = info_of(cases[i].node, cases[i].service, cases[i].flags);

        if ((info != NULL) != cases[i].is_good)
            fail_msg("case %zu", i);
        if (info == NULL)
            continue;
        assert_int_equal(info->src_addrlen, FIXTURE_ADDRESS);
        assert_int_equal(info->dest_addr != NULL, cases[i].has_dest);
        fi_freeinfo(info);
    }
}

static void services_can_be_inserted_by_name(void **state)
{
    struct fi_info *infos[2];
    struct fid_ep *eps[2];
    fi_addr_t addr, addrs[6];
    int errors[6];
    char base[24];
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    snprintf(base, sizeof base, "%d008", (int)getpid());
    for (int i = 0; i < 2; i++) { /* 008 and 009, of three to be inserted */
        char name[24];

        snprintf(name, sizeof name, "%d%03d", (int)getpid(), 8 + i);
        infos[i] = info_of(NULL, name, FI_SOURCE);
        assert_int_equal(open_named(&fix, infos[i], &eps[i]), 0);
    }
    assert_int_equal(fi_av_insertsvc(fix.node[0].av, "localhost", base, &addr, 0, NULL), 1);
    assert_int_equal(fi_av_insertsvc(fix.node[0].av, "localhost", "/", &addr, 0, NULL), 0);
    assert_int_equal(addr, FI_ADDR_NOTAVAIL);
    assert_int_equal(
        fi_av_insertsym(fix.node[0].av, "127.0.0.1", 1, base, 3, addrs, FI_SYNC_ERR, errors),
        2);
    assert_int_equal(errors[0], 0);
    assert_int_equal(errors[1], 0);
    assert_int_equal(errors[2], FI_EADDRNOTAVAIL);
    assert_true(addrs[0] != addrs[1] && addrs[2] == FI_ADDR_NOTAVAIL);
    /* 127.0.0.1 and 127.0.0.2 are both this machine */
    assert_int_equal(
        fi_av_insertsym(fix.node[0].av, "127.0.0.1", 2, base, 2, addrs, FI_SYNC_ERR, errors),
        4);
    assert_int_equal(fi_av_insertsym(fix.node[0].av, NULL, 1, base, 1, addrs, 0, NULL),
                     -FI_EINVAL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_close(&eps[i]->fid), 0);
        fi_freeinfo(infos[i]);
    }
    fixture_close(&fix);
}

/* ---- vectors
 * --------------------------------------------------------------------------------- */

static void an_insertion_is_told_by_events(void **state)
{
    struct fi_av_attr attr = {.type = FI_AV_MAP, .flags = FI_EVENT};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    char addresses[2][FIXTURE_ADDRESS] = {{0}};
    struct fi_eq_err_entry error = {0};
    struct fi_eq_entry entry = {0};
    struct fi_info *nobody;
    struct fid_av *av;
    struct fid_eq *eq;
    fi_addr_t addrs[2];
    uint32_t event;
    struct fixture fix;
    int errors[2];

    (void)state;
    fixture_open(&fix, &plain);
    nobody = info_of(NULL, service(0), 0);
    memcpy(addresses[0], nobody->dest_addr, FIXTURE_ADDRESS);
    memcpy(addresses[1], fix.node[1].address, FIXTURE_ADDRESS);
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), 0);
    assert_int_equal(fi_av_insert(av, addresses, 2, addrs, 0, NULL), -FI_ENOEQ);
    assert_int_equal(fi_eq_open(fix.fabric, &eq_attr, &eq, NULL), 0);
    assert_int_equal(fi_av_bind(av, &eq->fid, 0), 0);
    assert_int_equal(fi_close(&eq->fid), -FI_EBUSY);
    assert_int_equal(fi_av_insert(av, addresses, 2, addrs, FI_SYNC_ERR, errors), -FI_EINVAL);
    assert_int_equal(fi_av_insert(av, addresses, 2, addrs, 0, &contexts[1]), 0);
    assert_int_equal(fi_eq_sread(eq, &event, &entry, sizeof entry, -1, 0), -FI_EAVAIL);
    assert_int_equal(fi_eq_readerr(eq, &error, FI_PEEK), sizeof error);
    assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof error);
    assert_ptr_equal(error.fid, &av->fid);
    assert_ptr_equal(error.context, &contexts[1]);
    assert_int_equal(error.data, 0); /* the index of the failed address */
    assert_int_equal(error.err, FI_EADDRNOTAVAIL);
    assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof entry, 0), sizeof entry);
    assert_int_equal(event, FI_AV_COMPLETE);
    assert_ptr_equal(entry.fid, &av->fid);
    assert_ptr_equal(entry.context, &contexts[1]);
    assert_int_equal(entry.data, 1); /* the number of addresses inserted */
    assert_int_equal(addrs[0], FI_ADDR_NOTAVAIL);
    assert_int_not_equal(addrs[1], FI_ADDR_NOTAVAIL);
    assert_int_equal(fi_close(&av->fid), 0);
    assert_int_equal(fi_close(&eq->fid), 0);
    fi_freeinfo(nobody);
    fixture_close(&fix);
}

static void attributes_of_vectors_are_checked(void **state)
{
    struct fi_av_attr attr = {.type = (enum fi_av_type)9};
    struct fid_av *av;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), -FI_EINVAL);
    attr = (struct fi_av_attr){.rx_ctx_bits = 1};
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), -FI_EINVAL);
    attr = (struct fi_av_attr){.name = "everybody"};
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), -FI_ENOSYS);
    attr = (struct fi_av_attr){.flags = FI_PEEK};
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), -FI_EBADFLAGS);
    attr = (struct fi_av_attr){.type = FI_AV_UNSPEC, .flags = FI_SYMMETRIC, .count = 1000};
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), 0);
    assert_int_not_equal(attr.type, FI_AV_UNSPEC);
    assert_int_equal(fi_av_insert(av, NULL, 1, NULL, 0, NULL), -FI_EINVAL);
    assert_int_equal(fi_av_insert(av, NULL, 0, NULL, FI_MORE, NULL), 0);
    assert_int_equal(fi_av_insert(av, NULL, 0, NULL, FI_PEEK, NULL), -FI_EBADFLAGS);
    assert_int_equal(fi_close(&av->fid), 0);
    fixture_close(&fix);
}

/* ---- texts ----------------------------------------------------------------------------------
 */

/* The text of an address gives the same address again, both as a node and in a vector. */
static void a_text_is_read_back(void **state)
{
    char text[256], back[FIXTURE_ADDRESS];
    size_t len = sizeof text, back_len = sizeof back;
    struct fi_info *info;
    struct fixture fix;
    fi_addr_t addr;

    (void)state;
    fixture_open(&fix, &plain);
    assert_non_null(fi_av_straddr(fix.node[0].av, fix.node[1].address, text, &len));
    assert_int_equal(strncmp(text, "fi_matchbox://", 14), 0);
    info = info_of(text, NULL, 0);
    assert_non_null(info);
    assert_int_equal(info->dest_addrlen, FIXTURE_ADDRESS);
    assert_memory_equal(info->dest_addr, fix.node[1].address, FIXTURE_ADDRESS);
    fi_freeinfo(info);
    assert_int_equal(fi_av_insertsvc(fix.node[0].av, text, NULL, &addr, 0, NULL), 1);
    assert_int_equal(fi_av_lookup(fix.node[0].av, addr, back, &back_len), 0);
    assert_memory_equal(back, fix.node[1].address, FIXTURE_ADDRESS);
    text[strlen(text) - 1] = 'x';
    assert_null(info_of(text, NULL, 0));
    assert_null(info_of("fi_matchbox://service/", NULL, 0));
    assert_int_equal(fi_av_insertsvc(fix.node[0].av, text, NULL, &addr, 0, NULL), 0);
    fixture_close(&fix);
}

#define TEXTS 2

struct text_end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
};

static void text_end_open(struct fid_domain *domain, struct fi_info *info, struct text_end *end,
                          char *name, size_t capacity)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    size_t len = 5;

    assert_int_equal(fi_endpoint(domain, info, &end->ep, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq, &end->cq, NULL), 0);
    assert_int_equal(fi_av_open(domain, &av, &end->av, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(end->ep), 0);
    assert_int_equal(fi_getname(&end->ep->fid, name, &len), -FI_ETOOSMALL);
    assert_true(len <= capacity);
    assert_int_equal(fi_getname(&end->ep->fid, name, &len), 0);
    assert_int_equal(len, strlen(name) + 1);
}

static void texts_are_met(struct text_end *ends, const fi_addr_t *addrs)
{
    struct fi_cq_tagged_entry entry;
    uint64_t word = 77, got = 0;
    fi_addr_t source;
    ssize_t n;

    assert_int_equal(fi_trecv(ends[1].ep, &got, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &got), 0);
    assert_int_equal(fi_tinject(ends[0].ep, &word, 8, addrs[1], 1), 0);
    do {
        fi_cq_read(ends[0].cq, NULL, 0);
        n = fi_cq_readfrom(ends[1].cq, &entry, 1, &source);
    } while (n == -FI_EAGAIN);
    assert_int_equal(n, 1);
    assert_int_equal(got, word);
    assert_int_equal(source, addrs[0]);
}

/* A client may request addresses in text form: then all calls use it. */
static void addresses_can_be_text(void **state)
{
    struct fi_info *hints = fixture_hints(&plain), *info;
    char names[TEXTS * 256], back[256], text[256];
    struct text_end ends[TEXTS];
    size_t len = sizeof back, text_len = sizeof text;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    fi_addr_t addrs[TEXTS];
    char *second;

    (void)state;
    hints->addr_format = FI_ADDR_STR;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(info->addr_format, FI_ADDR_STR);
    assert_string_equal(info->src_addr, "fi_matchbox://");
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    text_end_open(domain, info, &ends[0], names, 256);
    second = names + strlen(names) + 1; /* one after the other, as fi_av_insert() needs them */
    text_end_open(domain, info, &ends[1], second, 256);
    for (int i = 0; i < TEXTS; i++)
        assert_int_equal(fi_av_insert(ends[i].av, names, 2, addrs, 0, NULL), 2);
    assert_int_equal(fi_av_insert(ends[0].av, "10.0.0.1", 1, addrs + 1, 0, NULL), 0);
    assert_int_equal(fi_av_insert(ends[0].av, second, 1, addrs + 1, 0, NULL), 1);
    assert_int_equal(fi_av_lookup(ends[0].av, addrs[1], back, &len), 0);
    assert_string_equal(back, second);
    assert_int_equal(len, strlen(second) + 1);
    assert_string_equal(fi_av_straddr(ends[0].av, back, text, &text_len), second);
    texts_are_met(ends, addrs);
    for (int i = 0; i < TEXTS; i++) {
        assert_int_equal(fi_close(&ends[i].ep->fid), 0);
        assert_int_equal(fi_close(&ends[i].cq->fid), 0);
        assert_int_equal(fi_close(&ends[i].av->fid), 0);
    }
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

/* Bytes that are not an address can be inserted in a vector; their first use fails. */
static void what_is_no_address_is_refused_in_use(void **state)
{
    char junk[FIXTURE_ADDRESS], text[256];
    size_t len = sizeof text;
    fi_addr_t addr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    memset(junk, 0x77, sizeof junk);
    assert_int_equal(fi_av_insert(fix.node[0].av, junk, 1, &addr, 0, NULL), 1);
    assert_true(fi_tinject(EP(fix, 0), "x", 1, addr, 1) < 0);
    assert_int_equal(fi_tinject(EP(fix, 0), "x", 1, 4711, 1), -FI_EINVAL);
    assert_int_equal(fi_tsend(EP(fix, 0), "x", 1, NULL, FI_ADDR_UNSPEC, 1, NULL), -FI_EINVAL);
    assert_non_null(fi_av_straddr(fix.node[0].av, junk, text, &len));
    len = 5;
    assert_non_null(fi_av_straddr(fix.node[0].av, junk, text, &len));
    assert_true(len > 5 && strlen(text) == 4);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_service_is_found_by_name),
        cmocka_unit_test(a_service_has_one_owner),
        cmocka_unit_test(the_next_endpoint_removes_the_names_of_the_dead),
        cmocka_unit_test_teardown(a_pipe_in_the_place_of_a_name_is_not_waited_for,
                                  remove_files),
        cmocka_unit_test_teardown(a_file_with_two_names_is_not_written_to, remove_files),
        cmocka_unit_test(nodes_and_services_are_checked),
        cmocka_unit_test(services_can_be_inserted_by_name),
        cmocka_unit_test(an_insertion_is_told_by_events),
        cmocka_unit_test(attributes_of_vectors_are_checked),
        cmocka_unit_test(a_text_is_read_back),
        cmocka_unit_test(addresses_can_be_text),
        cmocka_unit_test(what_is_no_address_is_refused_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
