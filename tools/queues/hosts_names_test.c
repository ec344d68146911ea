/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts_names_test.c - the hosts of a job, from the lists and variables of its launcher.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/unit.h"
#include "hosts_names.h"

static void test_lists_are_written_in_full(UNUSED void **state)
{
    static const struct {
        const char *list, *full; /* NULL: it is refused */
    } cases[] = {
        {"node1", "node1"},
        {"head,h[1:1-3]@0(4)", "head,h1,h2,h3"},
        {"h[2:8-11]", "h08,h09,h10,h11"},
        {"node[01-03,10],login", "node01,node02,node03,node10,login"},
        {"rack[1-2]-ib.local", "rack1-ib.local,rack2-ib.local"},
        {"n[3:7]@0(1)", "n007"},
        {"a,b,c", "a,b,c"},
        {"n[3-2]", NULL},
        {"", NULL},
        {"a,,b", NULL},
        {"a,", NULL},
        {"-oProxyCommand=x", NULL},
        {"a;b", NULL},
        {"$(a)", NULL},
        {"n[1-3", NULL},
        {"n[]", NULL},
        {"n[1-]", NULL},
        {"n[a]", NULL},
        {"n[1]m[2]", NULL},
        {"n[10:1]", NULL},
        {"n[1-9999999]", NULL},
        {"n[12345678901]", NULL},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char *full = hosts_names_expand(cases[i].list);

        if ((full == NULL) != (cases[i].full == NULL) ||
            (full != NULL && strcmp(full, cases[i].full) != 0))
            fail_msg("'%s': '%s', not '%s'", cases[i].list, full, cases[i].full);
        free(full);
    }
}

/* The programs that are there. */
static bool has_program(const char *program)
{
    return strcmp(program, "rsh") == 0 || strcmp(program, "/opt/enter") == 0 ||
           strcmp(program, "ssh") == 0;
}

/* text: variables with | between. */
static bool find(const char *text, bool needs_list, struct hosts_way *way)
{
    char zeros[512];
    size_t size = strlen(text) + 1;

    memcpy(zeros, text, size);
    for (size_t i = 0; i < size; i++)
        if (zeros[i] == '|')
            zeros[i] = '\0';
    return hosts_names_find(zeros, size, NULL, needs_list, has_program, way);
}

static void expect(const char *text, bool needs_list, const char *list, const char *launch)
{
    struct hosts_way way;

    assert_true(find(text, needs_list, &way));
    assert_string_equal(way.list != NULL ? way.list : "(the launcher's)", list);
    assert_string_equal(way.launch != NULL ? way.launch : "(ssh)", launch);
    hosts_names_free(&way);
}

static void test_launchers_name_the_hosts(UNUSED void **state)
{
    static const char slurm[] =
        "A=b|SLURM_JOB_ID=12|SLURM_JOB_NUM_NODES=3|SLURM_JOB_NODELIST=n[1-3]|"
        "OMPI_MCA_orte_node_regex=head";
    struct hosts_way way;

    expect("OMPI_MCA_orte_node_regex=head,h[1:1-2]@0(3)", false, "head,h1,h2", "(ssh)");
    expect("OMPI_MCA_orte_node_regex=h1|OMPI_MCA_plm_rsh_agent=/usr/bin/rsh -x", false, "h1",
           "/usr/bin/rsh -x %h");
    expect("OMPI_MCA_plm_rsh_agent=ssh : rsh|OMPI_MCA_orte_node_regex=h1", true, "h1", "(ssh)");
    expect(slurm, false, "(the launcher's)",
           "srun --jobid=12 --overlap -N3 --ntasks-per-node=1");
    expect(slurm, true, "n1,n2,n3", "(ssh)");
    expect("PBS_NODEFILE=/nowhere/nodes|OMPI_MCA_orte_node_regex=head,h1", false, "head,h1",
           "(ssh)");
    assert_false(find("PATH=/bin|XOMPI_MCA_orte_node_regex=h1", false, &way));
    assert_false(find("OMPI_MCA_orte_node_regex=", false, &way));
    assert_false(find("OMPI_MCA_orte_node_regex=-x", false, &way));
    assert_false(find("SLURM_JOB_ID=1 2|SLURM_JOB_NUM_NODES=3", false, &way));
    assert_false(find("PBS_NODEFILE=/nowhere/nodes", false, &way));
}

static void test_mpiexec_names_the_hosts_in_its_commands(UNUSED void **state)
{
    static const char shell[] = "ssh\0h1\0 orted -mca ess \"env\" -mca orte_node_regex "
                                "\"head,h[1:1-2]@0(3)\" -mca plm \"rsh\"";
    static const char words[] = "orted\0-mca\0orte_node_regex\0head,h1@0(2)\0-mca";
    static const char last[] = "orted\0-mca\0orte_node_regex", rank[] = "PATH=/bin";
    char *regex = hosts_names_of_command(shell, sizeof shell);
    struct hosts_way way;

    assert_string_equal(regex, "head,h[1:1-2]@0(3)");
    assert_true(hosts_names_find(rank, sizeof rank, regex, false, has_program, &way));
    assert_string_equal(way.list, "head,h1,h2");
    hosts_names_free(&way);
    free(regex);
    regex = hosts_names_of_command(words, sizeof words);
    assert_string_equal(regex, "head,h1@0(2)");
    free(regex);
    regex = hosts_names_of_command(last, sizeof last);
    assert_string_equal(regex, "");
    assert_false(hosts_names_find(rank, sizeof rank, regex, false, has_program, &way));
    free(regex);
    assert_null(hosts_names_of_command(rank, sizeof rank));
}

static void test_the_first_agent_that_is_there_is_used(UNUSED void **state)
{
    static const struct {
        const char *agents, *launch;
    } cases[] = {
        {"ssh : rsh", "(ssh)"},
        {"rsh : ssh", "rsh %h"},
        {"qrsh -now n : rsh -x : ssh", "rsh -x %h"},
        {"/nowhere/enter:/opt/enter -q", "/opt/enter -q %h"},
        {" qrsh : /nowhere/rsh ", "qrsh %h"},
        {" : qrsh", "qrsh %h"},
        {" : ", "(ssh)"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[128];

        snprintf(text, sizeof text, "OMPI_MCA_plm_rsh_agent=%s|OMPI_MCA_orte_node_regex=h1",
                 cases[i].agents);
        expect(text, true, "h1", cases[i].launch);
    }
}

static void test_pbs_has_a_file(UNUSED void **state)
{
    char path[] = "/tmp/matchbox-nodes-XXXXXX", text[64];
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");

    assert_non_null(file);
    fputs("n1\nn1\nn2.local\nn2.local\nn3\n", file);
    fclose(file);
    snprintf(text, sizeof text, "PBS_NODEFILE=%s", path);
    expect(text, false, "n1,n2.local,n3", "(ssh)");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_written_in_full),
        cmocka_unit_test(test_launchers_name_the_hosts),
        cmocka_unit_test(test_mpiexec_names_the_hosts_in_its_commands),
        cmocka_unit_test(test_the_first_agent_that_is_there_is_used),
        cmocka_unit_test(test_pbs_has_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
