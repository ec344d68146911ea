/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec.c - `mbx exec`: an unmodified MPI program over Matchbox.
 *
 * There are three ways.  MPICH with the device ch4:ucx loads our libucp (exec_ucp.c).  Open MPI
 * loads our component (src/pml), if it is of the series for which the component was built.  Every
 * MPI that knows libfabric loads our provider through it.  This last way needs four settings:
 * where the provider is, that it is the one to use, that the MPI uses libfabric's tag matching,
 * and that it also does so between processes of one machine.  Each MPI reads its own variables and
 * ignores the others', so the variables of MPICH are always set, and the variables of Open MPI for
 * the way that is taken.
 *
 * FI_PROVIDER lists the providers that libfabric shows to the MPI and to us.  Between the hosts of
 * a job messages go over another provider of the same libfabric (src/transport/ofi).  The number
 * of hosts is not known here, so the list also has the providers that can carry such messages.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/environ.h"
#include "base/param.h"
#include "base/random.h"
#include "exec.h"
#include "tools/common/tool.h"
#include "tools/races/races_say.h"

#define KEY_SIZE 16

/* The providers that can carry messages between hosts, if the user has named none. */
#define CARRIERS      "tcp,ofi_rxm,verbs,efa,cxi,opx,psm3"

#define VARIABLES_MAX 16

static const char usage[] =
    "usage: mbx exec [OPTIONS] [--] COMMAND [ARGUMENTS]\n"
    "       mbx exec [OPTIONS] --print\n"
    "\n"
    "Examples:\n"
    "  mbx exec --summary mpiexec -n 4 ./program\n"
    "  mbx exec --hang=60s mpiexec -n 4 ./program    report a deadlock by itself\n"
    "  mbx exec --record orders mpiexec -n 4 ./program\n"
    "  mbx exec --replay orders mpiexec -n 4 ./program    the same order of messages\n"
    "  mbx exec --shuffle 7 mpiexec -n 4 ./program        another one, recorded\n"
    "  mbx exec --races=run mpiexec -n 4 ./program    which receives are races?\n"
    "\n"
    "Runs COMMAND with an environment that makes Open MPI, or an MPICH with the device\n"
    "ch4:ofi or ch4:ucx, send its messages over Matchbox.\n"
    "\n"
    "If a variable or an option of the launcher (--mca pml ob1) would keep messages off\n"
    "Matchbox, mbx exec names it and starts nothing.  It changes no other variable.  It\n"
    "creates a key (MBX_KEY), without which no other process can connect to the job.\n"
    "Between hosts, messages use the first suitable provider of libfabric, or the one in\n"
    "MBX_OFI_PROVIDER.\n"
    "\n"
    "  -t, --through=WAY  how the MPI reaches Matchbox: `pml`, Open MPI's own component,\n"
    "                     `provider`, through libfabric, or `ucp`, through libucp, for\n"
    "                     any program of UCX (default: pml if it can be loaded; for\n"
    "                     MPICH what its device needs)\n"
    "  -s, --summary      print one line at the end: how many ranks ran over Matchbox,\n"
    "                     and what they matched; with --verbose one line for each rank\n"
    "  -H, --hang=TIME    if nothing has arrived at a waiting rank for this time (60 or\n"
    "                     60s), report a deadlock once, to standard error and into the\n"
    "                     file matchbox-hang-JOB.txt (MBX_HANG; MBX_HANG_THEN=abort ends\n"
    "                     the job)\n"
    "  -r, --record=DIR   record, for each rank, what calls returned whose result depends\n"
    "                     on time: receives from any source, probes, tests (`mbx order`\n"
    "                     prints it).  DIR is made; it must not have records\n"
    "  -R, --replay=DIR   let these calls return the same again.  With --record, the new\n"
    "                     record must be equal.  MBX_HANG is 10s unless it is set\n"
    "  -d, --on-divergence=stop|go\n"
    "                     if a call differs from the record: end the job with status 87\n"
    "                     (the default), or let the rank continue freely\n"
    "  -S, --shuffle=SEED  make random choices where MPI allows several.  Rare orders of\n"
    "                     messages occur.  They are recorded, into shuffle-SEED without\n"
    "                     --record.  SEED is a number from 1 on, or `random`\n"
    "      --races[=DIR]  record and trace the job into DIR (default: races), and say how "
    "many\n"
    "                     receives could have matched another message: `mbx races` has the\n"
    "                     report.  Collectives use messages (OMPI_MCA_coll)\n"
    "  -f, --force        override variables that are set, and replace records\n"
    "  -p, --print        print the variables, as lines for a shell, with a new key\n"
    "  -v, --verbose      name the way, the variables that are set, and those left\n"
    "                     unchanged\n"
    "  -h, --help         this text\n"
    "\n"
    "A launcher that starts processes on other hosts must pass the variables on.  Open\n"
    "MPI's passes on OMPI_... by itself, and others if you name them: mpiexec -x\n"
    "FI_PROVIDER_PATH -x FI_PROVIDER -x MBX_KEY.\n";

static const struct option options[] = {{"summary", no_argument, NULL, 's'},
                                        {"through", required_argument, NULL, 't'},
                                        {"hang", required_argument, NULL, 'H'},
                                        {"record", required_argument, NULL, 'r'},
                                        {"replay", required_argument, NULL, 'R'},
                                        {"on-divergence", required_argument, NULL, 'd'},
                                        {"shuffle", required_argument, NULL, 'S'},
                                        {"races", optional_argument, NULL, 'a'},
                                        {"force", no_argument, NULL, 'f'},
                                        {"print", no_argument, NULL, 'p'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct arguments {
    enum exec_way way;
    bool force, print, verbose, summary;
    char hang[32]; /* MBX_HANG; empty: it stays as it is */
    const char *record, *replay, *on_divergence, *races; /* or NULL */
    char seed[16], shuffle[32]; /* MBX_SHUFFLE, or empty; the folder that it records into */
};

/* The settings that the command gets. */
struct surroundings {
    char provider[PATH_MAX], component[PATH_MAX]; /* folders; empty: it is not here */
    char queues[PATH_MAX];                        /* the library for debuggers */
    char record[PATH_MAX], replay[PATH_MAX];      /* absolute */
    char preload[2 * PATH_MAX];                   /* the libraries that a record needs */
    char ucp[PATH_MAX],
        libraries[4 *
                  PATH_MAX]; /* the folder of libucp; a path of libraries that begins with it */
    bool is_component;       /* that way is taken */
    bool is_native;          /* the command is `mbx run`, and is recorded or replayed */
    enum exec_device device; /* of the MPICH of the command */
    struct exec_mpich mpich;
    char providers[256], path[3 * PATH_MAX], key[2 * KEY_SIZE + 1];
    bool has_pmix_path; /* Open MPI passes its path of components on to PMIx */
    struct exec_variable variables[VARIABLES_MAX];
    size_t count;
};

static void add(struct surroundings *s, const char *name, const char *value, const char *word,
                bool is_needed)
{
    assert(s->count < VARIABLES_MAX);
    s->variables[s->count++] = (struct exec_variable){name, value, word, is_needed};
}

/* Lists the providers that libfabric shall show: ours, and the ones that carry its messages.  The
 * layers of a provider are joined by semicolons in its name, and by commas in this list. */
static void list_providers(char *list, size_t size)
{
    const char *named = environ_get("MBX_OFI_PROVIDER");

    if (named == NULL || named[0] == '\0')
        named = CARRIERS;
    snprintf(list, size, "matchbox,%s", named);
    for (char *c = list; *c != '\0'; c++)
        if (*c == ';')
            *c = ',';
}

/* libfabric's, of which Open MPI needs nothing if it has the component. */
static void add_provider(struct surroundings *s, bool is_needed)
{
    list_providers(s->providers, sizeof s->providers);
    add(s, "FI_PROVIDER_PATH", s->provider, s->provider, is_needed);
    add(s, "FI_PROVIDER", s->providers, "matchbox", is_needed);
    add(s, "MPIR_CVAR_NOLOCAL", "1", NULL, false);
}

static void take_provider(struct surroundings *s)
{
    add_provider(s, true);
    add(s, "OMPI_MCA_pml", "cm", NULL, true);
    add(s, "OMPI_MCA_mtl", "ofi", NULL, true);
    add(s, "OMPI_MCA_mtl_ofi_provider_include", "matchbox", "matchbox", true);
}

/* Open MPI looks in our folder first, and then where it would have looked.  Open MPI 5.0 also gives
 * its path to PMIx, which warns that our component is none of its own, unless a path is set for
 * PMIx; an empty one kills the mpiexec of 5.0.7 where it starts others by ssh. */
static void take_component(struct surroundings *s)
{
    const char *set = environ_get("OMPI_MCA_mca_base_component_path");

    snprintf(s->path, sizeof s->path, "%s:%s", s->component,
             set != NULL && set[0] != '\0' ? set : "SYSTEM_DEFAULT:USER_DEFAULT");
    s->is_component = true;
    add(s, "OMPI_MCA_pml", "matchbox", NULL, true);
    add(s, "OMPI_MCA_mca_base_component_path", s->path, s->component, false);
    if (s->has_pmix_path)
        add(s, "PMIX_MCA_mca_base_component_path", ":", NULL, false);
    if (s->provider[0] != '\0')
        add_provider(s, false);
}

/* Can Open MPI's component be used?  If it was asked for, or with -v, it is said why not. */
static bool component_is_here(const struct tool *tool, const struct arguments *args,
                              struct surroundings *s)
{
    char said[512] = "mca_pml_matchbox.so is not here; was it built?";

    if (s->component[0] != '\0' && exec_component_loads(s->component, said, sizeof said)) {
        if (args->verbose)
            tool_error(tool, "through the component for Open MPI (%s)", said);
        s->has_pmix_path = strncmp(said, "Open MPI v4", strlen("Open MPI v4")) != 0;
        return true;
    }
    if (args->way == EXEC_COMPONENT)
        tool_error(tool, "Open MPI cannot load the component: %s", said);
    else if (args->verbose)
        tool_error(tool, "through the provider: Open MPI cannot load the component: %s", said);
    return false;
}

/* The library by which a debugger that is started with the job, as `ddt mpiexec ...`, sees the queues: MPI's own knows
 * nothing of them. */
static void add_queues(struct surroundings *s)
{
    if (exec_find_queues(s->queues))
        add(s, "ALLINEA_QUEUE_DLL", s->queues, NULL, false);
}

/* Sets a variable whatever it is now: what was asked for now is meant. */
static void add_anew(struct surroundings *s, const char *name, const char *value)
{
    unsetenv(name);
    add(s, name, value, NULL, false);
}

/* Our folder, or file, before what is in the variable already. */
static void put_first(struct surroundings *s, const char *name, const char *first)
{
    const char *set = environ_get(name);

    snprintf(s->libraries, sizeof s->libraries, "%s%s%s", first,
             set != NULL && set[0] != '\0' ? ":" : "", set != NULL ? set : "");
    add_anew(s, name, s->libraries);
}

/* Open MPI takes its components for UCX only if libucp names transports and devices that it knows.  Windows use its other
 * components. */
static void add_ucx_of_open_mpi(struct surroundings *s)
{
    add(s, "OMPI_MCA_pml", "ucx", NULL, true);
    add(s, "OMPI_MCA_pml_ucx_tls", "any", NULL, true);
    add(s, "OMPI_MCA_pml_ucx_devices", "any", NULL, true);
    add(s, "OMPI_MCA_osc", "ucx,sm", NULL, false);
}

/* command: or NULL. */
static bool take_ucp(const struct tool *tool, const struct arguments *args, char **command,
                     struct surroundings *s)
{
    char file[PATH_MAX + sizeof "/libucp.so.0"];

    if (!exec_find_ucp(s->ucp)) {
        exec_say_no_ucp(tool);
        return false;
    }
    if (!args->force && !exec_ucp_is_possible(tool, command, s->ucp))
        return false;
    if (args->verbose && s->device == EXEC_UCX)
        tool_error(tool, "through libucp: MPICH %s (%s)", s->mpich.version, s->mpich.device);
    else if (args->verbose)
        tool_error(tool, "through libucp");
    snprintf(file, sizeof file, "%s/libucp.so.0", s->ucp);
    if (exec_ucp_is_preloaded(tool, command))
        put_first(s, "LD_PRELOAD", file);
    else
        put_first(s, "LD_LIBRARY_PATH", s->ucp);
    if (s->mpich.has_shm)
        add(s, "MPIR_CVAR_NOLOCAL", "1", NULL, false);
    if (s->device == EXEC_NO_MPICH)
        add_ucx_of_open_mpi(s);
    return true;
}

/* Chooses the way.  False: there is none. */
static bool set_up(const struct tool *tool, const struct arguments *args, char **command,
                   struct surroundings *s)
{
    if (command != NULL)
        s->device = exec_mpich_device(command[0], &s->mpich);
    if (args->way == EXEC_UCP || (args->way == EXEC_AUTO && s->device == EXEC_UCX))
        return take_ucp(tool, args, command, s);
    if (!exec_find_provider(s->provider))
        s->provider[0] = '\0';
    if (!exec_find_component(s->component))
        s->component[0] = '\0';
    if (args->way != EXEC_PROVIDER && component_is_here(tool, args, s)) {
        take_component(s);
        add_queues(s);
        return true;
    }
    if (args->way == EXEC_COMPONENT)
        return false;
    if (s->provider[0] == '\0') {
        exec_say_no_provider(tool);
        return false;
    }
    if (args->way == EXEC_PROVIDER && args->verbose)
        tool_error(tool, "through the provider");
    take_provider(s);
    add_queues(s);
    return true;
}

/* A key of this job's own, so that others of the same user stay outside. */
static int make_key(const struct tool *tool, struct surroundings *s)
{
    uint8_t key[KEY_SIZE];
    int err = random_secret(key, sizeof key);

    if (err < 0) {
        tool_error(
            tool,
            "cannot make a random key for MBX_KEY: %s; set MBX_KEY to 32 hexadecimal digits",
            strerror(-err));
        return err;
    }
    for (size_t i = 0; i < sizeof key; i++)
        snprintf(s->key + 2 * i, 3, "%02x", key[i]);
    return 0;
}

/* ---- printing -------------------------------------------------------------------------- */

/* In single quotes, which end nowhere within. */
static void print_quoted(const char *value)
{
    putchar('\'');
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*c);
    }
    putchar('\'');
}

static void print_line(const char *name, const char *value)
{
    printf("export %s=", name);
    print_quoted(value);
    putchar('\n');
}

static int print_variables(const struct surroundings *s)
{
    for (size_t i = 0; i < s->count; i++)
        print_line(s->variables[i].name, s->variables[i].value);
    print_line("MBX_KEY", environ_get("MBX_KEY") != NULL ? environ_get("MBX_KEY") : s->key);
    return TOOL_DONE;
}

/* ---- executing ------------------------------------------------------------------------- */

/* Is what is set already to stay? */
static bool stays(const struct exec_variable *variable, const struct arguments *args)
{
    const char *old = environ_get(variable->name);

    if (old == NULL || (strcmp(variable->name, "OMPI_MCA_mca_base_component_path") == 0 &&
                        !exec_site_agrees(variable)))
        return false;
    return !args->force || exec_site_agrees(variable);
}

static int set_variable(const struct tool *tool, const struct exec_variable *variable,
                        const struct arguments *args)
{
    const char *old = environ_get(variable->name);
    bool is_kept = stays(variable, args);

    if (args->verbose && is_kept && strcmp(old, variable->value) != 0)
        tool_error(tool, "%s=%s was set already and stays (not %s)", variable->name, old,
                   variable->value);
    else if (args->verbose)
        tool_error(tool, "%s=%s", variable->name, variable->value);
    return is_kept ? 0 : setenv(variable->name, variable->value, 1);
}

static int set_key(const struct tool *tool, const struct surroundings *s, bool verbose)
{
    const bool is_set = environ_get("MBX_KEY") != NULL && environ_get("MBX_KEY")[0] != '\0';

    if (verbose)
        tool_error(tool, "MBX_KEY %s", is_set ? "was set already" : "is new");
    return is_set ? 0 : setenv("MBX_KEY", s->key, 1);
}

/* Started as a rank, it is where the rank is, which may be a container of its own. */
static bool is_launcher(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_STEP_ID"};

    for (size_t i = 0; i < ARRAY_COUNT(ranks); i++)
        if (environ_get(ranks[i]) != NULL)
            return false;
    return true;
}

/* Is one line printed for all ranks?  If not, each rank prints its own: `mbx exec` is executed by each rank, or the statistics
 * go to a file of the user. */
static bool sums_up(const struct arguments *args)
{
    return args->summary && is_launcher() && environ_get("MBX_STATS_FILE") == NULL;
}

/* Executes the command, and says if it has recorded nothing. */
static int execute_recorded(const struct tool *tool, char **command,
                            const struct surroundings *s, const struct arguments *args)
{
    char folder[PATH_MAX];
    int status = sums_up(args) && exec_summary_open(tool, folder)
                     ? exec_summary_run(tool, folder, command)
                     : exec_wait(tool, command);

    if (status < 0)
        return TOOL_CANNOT_RUN;
    exec_order_warn_of_nothing(tool, s->record);
    if (args->races != NULL)
        races_say(args->races);
    return status;
}

static int execute(const struct tool *tool, char **command, const struct surroundings *s,
                   const struct arguments *args)
{
    int status = tool_find_program(tool, command[0]);
    char folder[PATH_MAX];

    if (status != 0)
        return status;
    for (size_t i = 0; i < s->count; i++) {
        if (set_variable(tool, &s->variables[i], args) < 0) {
            tool_error(tool, "%s cannot be set: %s", s->variables[i].name, strerror(errno));
            return TOOL_FAILED;
        }
    }
    if (set_key(tool, s, args->verbose) < 0)
        return TOOL_FAILED;
    if (is_launcher())
        tool_leave_host(false);
    if (args->record != NULL && is_launcher() && !tool->is_inner)
        return execute_recorded(tool, command, s, args);
    if (sums_up(args) && exec_summary_open(tool, folder))
        return exec_summary_run(tool, folder, command);
    execvp(command[0], command);
    tool_error(tool, "cannot run '%s': %s", command[0], strerror(errno));
    return TOOL_CANNOT_RUN;
}

/* ---- arguments ------------------------------------------------------------------------- */

static int read_way(const struct tool *tool, const char *text, enum exec_way *way)
{
    if (strcmp(text, "pml") == 0)
        *way = EXEC_COMPONENT;
    else if (strcmp(text, "provider") == 0)
        *way = EXEC_PROVIDER;
    else if (strcmp(text, "ucp") == 0)
        *way = EXEC_UCP;
    else
        return tool_usage_error(tool, "--through is pml, provider or ucp, not '%s'", text);
    return 0;
}

/* A seed, or `random`: one that is said. */
static int read_seed(const struct tool *tool, const char *text, struct arguments *args)
{
    uint64_t seed = 0;
    int status = 0;

    if (strcmp(text, "random") != 0)
        status = tool_number(tool, "--shuffle", text, 1, UINT32_MAX, &seed);
    else if ((status = random_secret(&seed, sizeof seed)) < 0) {
        tool_error(tool, "--shuffle: no random number: %s", strerror(-status));
        return TOOL_FAILED;
    }
    if (strcmp(text, "random") == 0) {
        seed = seed % UINT32_MAX + 1;
        fprintf(stderr, "mbx exec: the seed is %" PRIu64 "\n", seed);
    }
    snprintf(args->seed, sizeof args->seed, "%" PRIu64, seed);
    snprintf(args->shuffle, sizeof args->shuffle, "shuffle-%" PRIu64, seed);
    return status;
}

static int read_arguments(const struct tool *tool, int argc, char **argv,
                          struct arguments *args)
{
    uint64_t hang_ns;
    int option, status = 0;

    while ((option = tool_option(tool, argc, argv, "+:t:H:r:R:d:S:sfpvhn:", options,
                                 &status)) >= 0) {
        args->force = args->force || option == 'f';
        args->print = args->print || option == 'p';
        args->verbose = args->verbose || option == 'v';
        args->summary = args->summary || option == 's';
        if (option == 'n')
            return tool_usage_error(tool, "-n is mpiexec's; write mbx exec mpiexec -n RANKS "
                                          "PROGRAM");
        if (option == 'H') {
            status =
                tool_time(tool, "--hang", optarg, "s", CLOCK_MS, 1000000 * CLOCK_S, &hang_ns);
            if (status != 0)
                return status;
            param_time_text(hang_ns, args->hang, sizeof args->hang);
        }
        if (option == 'r')
            args->record = optarg;
        if (option == 'R')
            args->replay = optarg;
        if (option == 'a')
            args->races = optarg != NULL ? optarg : "races";
        if (option == 'd') {
            if (strcmp(optarg, "stop") != 0 && strcmp(optarg, "go") != 0)
                return tool_usage_error(tool, "--on-divergence is stop or go, not '%s'",
                                        optarg);
            args->on_divergence = optarg;
        }
        if (option == 'S' && (status = read_seed(tool, optarg, args)) != 0)
            return status;
        if (option == 't' && (status = read_way(tool, optarg, &args->way)) != 0)
            return status;
    }
    if (option == -2)
        return status != 0 ? status : -1;
    if (!args->print && optind == argc)
        return tool_usage_error(tool, "COMMAND is missing");
    if (args->on_divergence != NULL && args->replay == NULL)
        return tool_usage_error(tool, "--on-divergence needs --replay");
    if (args->seed[0] != '\0' && args->replay != NULL)
        return tool_usage_error(tool, "--shuffle makes new choices, and --replay repeats a "
                                      "record: give one of them");
    if (args->races != NULL && args->record != NULL)
        return tool_usage_error(tool,
                                "--races records into its own folder: leave --record out");
    if (args->races != NULL)
        args->record = args->races;
    if (args->seed[0] != '\0' && args->record == NULL)
        args->record = args->shuffle;
    if (args->print && (args->record != NULL || args->replay != NULL))
        return tool_usage_error(tool,
                                "--print takes no --record, --replay, --shuffle or --races");
    if (args->print && optind < argc)
        return tool_usage_error(tool, "--print takes no command, got '%s'", argv[optind]);
    return 0;
}

/* The ranks would refuse them, each in its own log. */
static bool parameters_are_right(const struct tool *tool)
{
    struct mbx_param param;
    const char *key = environ_get("MBX_KEY");

    if (mbx_param_get(0, &param, sizeof param) >= 0) {
        if (key == NULL || key[0] == '\0' ||
            (strlen(key) == 2 * KEY_SIZE &&
             strspn(key, "0123456789abcdefABCDEF") == 2 * KEY_SIZE))
            return true;
        tool_error(tool,
                   "MBX_KEY: %zu characters that are not %d hexadecimal digits; unset it, and "
                   "each job gets a key "
                   "of its own",
                   strlen(key), 2 * KEY_SIZE);
    }
    tool_error(tool, "a variable MBX_... is wrong (see above); nothing is executed");
    return false;
}

/* Does the environment, and the MPI of the command, let messages go over Matchbox? */
static bool is_possible(const struct tool *tool, const struct arguments *args, char **command,
                        const struct surroundings *s)
{
    return exec_site_allows(tool, s->variables, s->count) &&
           exec_site_command_allows(tool, command, s->variables, s->count) &&
           exec_mpich_is_possible(tool, s->device, &s->mpich, args->way);
}

/* Components whose collectives are no messages. */
#define COLLECTIVES "^sm,han,xhc,acoll,hcoll,ucc"

static bool set_up_races(const struct tool *tool, const struct arguments *args,
                         struct surroundings *s)
{
    const char *set = environ_get("OMPI_MCA_coll");

    if (!exec_order_trace(tool, s->record, args->force))
        return false;
    add_anew(s, "MBX_TRACE", s->record);
    add(s, "MBX_TRACE_FOR", "races", NULL, false);
    add(s, "OMPI_MCA_coll", COLLECTIVES, NULL, false);
    if (set != NULL && strcmp(set, COLLECTIVES) != 0 && !args->force)
        tool_error(tool,
                   "--races: OMPI_MCA_coll=%s stays: the order that collectives make is known "
                   "only if they "
                   "use messages (OMPI_MCA_coll=" COLLECTIVES ")",
                   set);
    else
        tool_error(tool, "--races: collectives use messages (OMPI_MCA_coll=" COLLECTIVES ")");
    return true;
}

/* Is it `mbx run`, whose programs use no MPI? */
static bool is_run_of_mbx(char **command)
{
    const char *slash = strrchr(command[0], '/');

    return strcmp(slash != NULL ? slash + 1 : command[0], "mbx") == 0 && command[1] != NULL &&
           strcmp(command[1], "run") == 0;
}

/* One preloaded library sees calls that the component does not see.  The other one sees the calls of programs without MPI.
 * Its mbx_choice() passes on the calls of all other programs. */
static void add_preload(struct surroundings *s)
{
    char native[PATH_MAX], preload[PATH_MAX];
    bool has_native = exec_find_native(native), has_preload = exec_find_preload(preload);

    snprintf(s->preload, sizeof s->preload, "%s%s%s", has_native ? native : "",
             has_native && has_preload ? ":" : "", has_preload ? preload : "");
    if (s->preload[0] != '\0')
        put_first(s, "LD_PRELOAD", s->preload);
}

/* Can the order of this command be recorded, or replayed? */
static bool order_is_possible(const struct tool *tool, const struct arguments *args,
                              char **command, struct surroundings *s)
{
    char native[PATH_MAX];

    if (s->is_native && (args->seed[0] != '\0' || args->races != NULL))
        tool_error(tool, "mbx run starts programs that call the library without MPI: they are "
                         "recorded and replayed, but --shuffle and --races need Open MPI");
    else if (s->is_native && !exec_find_native(native))
        tool_error(tool, "libmatchbox-native.so is not here: programs that call the library "
                         "without MPI cannot be recorded");
    else if (s->is_native)
        return true;
    else if (s->device != EXEC_NO_MPICH)
        tool_error(
            tool,
            "%s starts programs of MPICH (%s): --record, --replay, --shuffle and --races "
            "need Open MPI, whose component alone records",
            command[0], s->mpich.device);
    else if (!s->is_component)
        tool_error(tool, "--record, --replay, --shuffle and --races need the component for "
                         "Open MPI; -v says "
                         "why it is not used");
    else
        return true;
    return false;
}

/* --record, --replay, --shuffle and --races. */
static bool set_up_order(const struct tool *tool, const struct arguments *args, char **command,
                         struct surroundings *s)
{
    if (!order_is_possible(tool, args, command, s))
        return false;
    if (args->replay != NULL && !exec_order_replay(tool, args->replay, command, s->replay))
        return false;
    if (args->record != NULL && args->replay != NULL &&
        realpath(args->record, s->record) != NULL && strcmp(s->record, s->replay) == 0) {
        tool_error(tool, "--record and --replay name the same folder: record into another one");
        return false;
    }
    if (args->record != NULL &&
        !exec_order_record(tool, args->record, args->force, command, s->record))
        return false;
    add_preload(s);
    if (args->record != NULL)
        add_anew(s, "MBX_RECORD", s->record);
    if (args->races != NULL && !set_up_races(tool, args, s))
        return false;
    if (args->seed[0] != '\0')
        add_anew(s, "MBX_SHUFFLE", args->seed);
    if (args->replay == NULL)
        return true;
    add_anew(s, "MBX_REPLAY", s->replay);
    if (args->on_divergence != NULL)
        add_anew(s, "MBX_REPLAY_ON_DIVERGENCE", args->on_divergence);
    if (args->hang[0] == '\0')
        add(s, "MBX_HANG", "10s", NULL, false);
    return true;
}

static int run(const struct tool *tool, int argc, char **argv)
{
    static struct surroundings s;
    struct arguments args = {.way = EXEC_AUTO};
    int status = read_arguments(tool, argc, argv, &args);

    if (status != 0)
        return status < 0 ? TOOL_DONE : status;
    s.is_native = (args.record != NULL || args.replay != NULL) && is_run_of_mbx(argv + optind);
    if (!parameters_are_right(tool) ||
        (!s.is_native && !set_up(tool, &args, args.print ? NULL : argv + optind, &s)) ||
        make_key(tool, &s) < 0)
        return TOOL_FAILED;
    if (args.hang[0] != '\0') {
        unsetenv("MBX_HANG"); /* what was asked for now is meant */
        add(&s, "MBX_HANG", args.hang, NULL, false);
    }
    if ((args.record != NULL || args.replay != NULL) &&
        !set_up_order(tool, &args, argv + optind, &s))
        return TOOL_FAILED;
    if (args.summary && (args.verbose || !sums_up(&args)))
        add(&s, "MBX_LOG_LEVEL", "info", NULL, false);
    if (args.print)
        return print_variables(&s);
    if (!args.force && !s.is_native && !is_possible(tool, &args, argv + optind, &s))
        return TOOL_FAILED;
    exec_site_warn_of_statistics(tool);
    exec_site_warn_of_containers(tool, argv + optind);
    exec_warn_of_another_mpi(tool, argv + optind);
    return execute(tool, argv + optind, &s, &args);
}

const struct tool tool_exec = {
    .name = "exec",
    .about = "run an unmodified MPI program over Matchbox",
    .usage = usage,
    .options = options,
    .run = run,
};
