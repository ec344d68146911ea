/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot_fuzz.c - mbx reads arbitrary answers of other hosts, merges the correct ones, and judges.
 *
 *   lines    a snapshot in lines; bytes are changed, and lines are omitted, repeated, reordered or mixed with another snapshot's
 *   text     the JSON of a snapshot that is truncated, or in which bytes, values or fields are changed
 *   several  such texts, with correct ones among them, as the hosts of one job, in two inspections
 *
 * The first byte of an input chooses one.  An accepted snapshot fulfils the guarantees of snapshot_read.c, is printed as JSON, and
 * is read again with the same result.  A job of ranks that wait for each other, of which a host is missing or damaged, must have
 * no deadlocked rank.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "fuzz/program.h"
#include "tools/observe/diagnose.h"
#include "tools/queues/hosts.h"
#include "tools/queues/queues.h"
#include "tools/queues/snapshot.h"

#define HOSTS 3
#define EACH  2 /* ranks of a host */
#define RANKS (HOSTS * EACH)

struct text {
    char *bytes;
    size_t size;
};

/* ---- right ones ---- */

static uint64_t address_of(uint32_t rank)
{
    return UINT64_C(0x1000) + rank;
}

/* Each rank waits for the rank before it; processes on all hosts have the same ids. */
static struct text snapshot_of(uint32_t host)
{
    struct text text = {NULL, 0};
    FILE *out = open_memstream(&text.bytes, &text.size);

    require(out != NULL, "no memory");
    fprintf(
        out,
        "{\"format\":1,\"matchbox\":\"0.1.0\",\"host\":\"h%" PRIu32
        "\",\"hosts\":[{\"host\":\"h%" PRIu32 "\",\"id\":\"%016" PRIx32
        "\",\"answered\":true,\"matchbox\":\"0.1.0\",\"cores\":2,\"refused\":0,\"why\":\"\","
        "\"others\":[\"1 rank of a.out\"]}],\"jobs\":[{\"job\":\"00000000000000ab\","
        "\"mpi\":\"\",\"size\":6,\"ranks\":[",
        host, host, host + 1);
    for (uint32_t i = 0; i < EACH; i++) {
        uint32_t rank = host * EACH + i;

        fprintf(
            out,
            "%s{\"rank\":%" PRIu32 ",\"ranks\":6,\"host\":\"h%" PRIu32 "\",\"pid\":%" PRIu32
            ",\"address\":\"%016" PRIx64
            "\",\"endpoint\":4096,\"opened_ns\":7,\"library\":\"0.1.0\",\"mpi\":\"\","
            "\"seen\":\"asked\",\"state\":\"S\",\"call\":\"mbx_wait\",\"caller\":0,"
            "\"threads\":true,\"answerer\":8,\"callers\":2,\"tasks\":["
            "{\"id\":8,\"called\":true,\"kind\":0,\"started\":1,\"ran_ns\":2,\"word\":0,"
            "\"does\":\"\"},{\"id\":9,\"called\":true,\"kind\":2,\"started\":1,\"ran_ns\":2,"
            "\"word\":3,\"does\":\"waits\"},{\"id\":10,\"called\":false,\"kind\":1,\"started\":"
            "1,"
            "\"ran_ns\":2,\"word\":0,\"does\":\"waits\"}],\"still_ms\":5000,\"arrived\":1,"
            "\"sent\":1,\"received\":1,"
            "\"cancelled\":0,\"counts\":{\"posted\":1,\"unexpected\":1,\"send\":0,"
            "\"sending\":0,\"receiving\":0,\"access\":0,\"probe\":0,\"probed\":0},"
            "\"entries\":[",
            i > 0 ? "," : "", rank, host, 8 + i, address_of(rank));
        for (uint32_t e = 0; e < 2; e++)
            fprintf(out,
                    "%s{\"kind\":\"%s\",\"peer\":%" PRIu32
                    ",\"rank\":null,\"address\":\"%016" PRIx64
                    "\",\"any_source\":false,\"context\":1,\"tag\":%" PRIu32
                    ",\"ignore\":0,\"size\":8,\"synchronous\":false,\"deferred\":false,"
                    "\"internal\":false,\"rts\":false,\"id\":%" PRIu32
                    ",\"age\":0,\"count\":0,\"needs\":%d,"
                    "\"waited_ms\":5000,\"words\":\"\"}",
                    e > 0 ? "," : "", e == 0 ? "posted" : "unexpected", (rank + 5) % 6,
                    address_of((rank + 5) % 6), 7 + e, e, e == 0);
        fprintf(out,
                "],\"names\":[\"context 1 6 ring\",\"peer %" PRIu32 " %" PRIu32
                "\"],\"statistics\":\"endpoint rank=%" PRIu32
                " read_fallbacks=0\",\"line\":\"ring.c:7\",\"does\":\"\",\"apart\":\"\"}",
                (rank + 5) % 6, (rank + 5) % 6, rank);
    }
    fprintf(out, "]}]}");
    require(fclose(out) == 0, "no memory");
    return text;
}

/* ---- damage ---- */

static const char *const values[] = {
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999",
    "4294967295",
    "4294967296",
    "2147483648",
    "-1",
    "1.5",
    "1e9",
    "0",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\"\\u0007\"",
    "\"\\",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "\"asked\"",
    "\"core\"",
    "\"ffffffffffffffff\"",
    "",
};

/* Replaces `size` bytes at `at`. */
static void splice(struct text *text, size_t at, size_t size, const char *with)
{
    size_t more = strlen(with);
    char *bytes = malloc(text->size - size + more + 1);

    require(bytes != NULL, "no memory");
    memcpy(bytes, text->bytes, at);
    memcpy(bytes + at, with, more);
    memcpy(bytes + at + more, text->bytes + at + size, text->size - at - size);
    free(text->bytes);
    *text = (struct text){bytes, text->size - size + more};
}

static size_t place(struct input *in, size_t size)
{
    return size == 0 ? 0 : (size_t)(take(in) | take(in) << 8) % size;
}

/* The beginning of the next field at or after a position; its key is in quotes, and a colon
 * follows. */
static size_t field_at(const struct text *text, size_t from)
{
    for (size_t i = from; i + 1 < text->size; i++)
        if (text->bytes[i] == ':' && i > 0 && text->bytes[i - 1] == '"')
            return i + 1;
    return text->size;
}

/* The end of the value that begins there, if it is a simple one. */
static size_t value_end(const struct text *text, size_t at)
{
    while (at < text->size && strchr(",}]", text->bytes[at]) == NULL)
        at++;
    return at;
}

static void damage(struct text *text, struct input *in)
{
    size_t at, end;

    switch (take(in) % 5) {
    case 0: /* truncates it */
        text->size = place(in, text->size + 1);
        break;
    case 1: /* changes a byte */
        if (text->size != 0)
            text->bytes[place(in, text->size)] = (char)take(in);
        break;
    case 2: /* changes a value */
        at = field_at(text, place(in, text->size));
        splice(text, at, value_end(text, at) - at, values[take(in) % ARRAY_COUNT(values)]);
        break;
    case 3: /* removes or repeats a piece */
        at = place(in, text->size);
        end = at + min_size(take(in), text->size - at);
        if (take(in) % 2 == 0) {
            splice(text, at, end - at, "");
        } else {
            char copy[256];

            snprintf(copy, sizeof copy, "%.*s", (int)(end - at), text->bytes + at);
            splice(text, at, 0, copy);
        }
        break;
    default: /* changes a key */
        at = field_at(text, place(in, text->size));
        if (at > 3 && at < text->size)
            text->bytes[at - 3] = (char)('a' + take(in) % 26);
        break;
    }
}

/* ---- what was accepted ---- */

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((*text < ' ' || *text > '~') && *text != '\n')
            return false;
    return true;
}

static void check_rank(const struct inspect_rank *rank)
{
    uint64_t all = 0;

    for (unsigned kind = 1; kind < INSPECT_KINDS; kind++)
        all += rank->state.counts[kind];
    require(rank->count <= all && rank->count <= INSPECT_ENTRIES,
            "more entries than there can be");
    for (uint32_t i = 0; i < rank->count; i++)
        require(rank->entries[i].kind > INSPECT_NONE && rank->entries[i].kind < INSPECT_KINDS,
                "an entry is of no kind");
    require(rank->reported != NULL && rank->text != NULL && rank->host != 0,
            "a rank is not told");
    require(is_printable(rank->text) && is_printable(rank->reported->host) &&
                is_printable(rank->reported->line) && is_printable(rank->reported->does) &&
                is_printable(rank->reported->apart) && is_printable(rank->state.call) &&
                is_printable(rank->head.library) && is_printable(rank->head.mpi),
            "a text is not to be printed");
    require(rank->how != INSPECT_CORE && rank->head.pid != 0, "a rank is not of a host");
    require(rank->task_count <= INSPECT_TASKS, "more threads than there can be");
    for (uint32_t i = 0; i < rank->task_count; i++)
        require(rank->tasks[i].kind <= INSPECT_TASK_IN_MPI && is_printable(rank->tasks[i].does),
                "a thread is of no kind, or its text is not to be printed");
}

static char *print(const struct observed *observed, size_t *size)
{
    const struct queues_json wanted = {
        .stats = true, .details = true, .entries = INSPECT_ENTRIES};
    char *text = NULL;
    FILE *out = open_memstream(&text, size);

    require(out != NULL, "no memory");
    queues_json(out, observed, &wanted);
    require(fclose(out) == 0, "no memory");
    return text;
}

/* Prints the snapshot, and checks that it is read again with the same result. */
static void check_again(const struct observed *observed)
{
    size_t size, size_again;
    char *text = print(observed, &size), *again;
    struct observed other;
    const char *wrong = snapshot_read(text, size, &other);

    if (wrong != NULL)
        fprintf(stderr, "%s: %s\n", wrong, text);
    require(wrong == NULL, "what was accepted is not when it is printed");
    again = print(&other, &size_again);
    require(size == size_again && memcmp(text, again, size) == 0,
            "what was printed is read as something else");
    observe_free(&other);
    free(text);
    free(again);
}

static bool read_text(const struct text *text, struct observed *out)
{
    const char *wrong = snapshot_read(text->bytes, text->size, out);

    if (wrong != NULL) {
        require(*wrong != '\0' && is_printable(wrong) && strlen(wrong) < 200, "no reason");
        return false;
    }
    require(out->host_count == 1 && is_printable(out->hosts[0].name) &&
                (out->hosts[0].others == NULL || is_printable(out->hosts[0].others)),
            "no host");
    for (uint32_t i = 0; i < out->count; i++)
        for (uint32_t r = 0; r < out->jobs[i].count; r++)
            check_rank(&out->jobs[i].ranks[r]);
    return true;
}

/* Fields of the text above that are not read, or are optional. */
#define NOT_READ (4 * 2 + 2) /* `rank` and `words` of entries, `mpi` and `size` of the job */
/* `others`; `statistics`, `line`, `does`, `apart`, `answerer`, `callers` and `tasks` */
#define OPTIONAL (NOT_READ + 1 + 2 * 7)

static bool is_accepted(const struct text *text)
{
    struct observed observed;
    bool accepted = read_text(text, &observed);

    observe_free(&observed);
    return accepted;
}

/* The number of accepted texts when in each of them one field has another key, or another
 * value. */
static uint32_t accepted_without(const char *value)
{
    struct text right = snapshot_of(0);
    uint32_t accepted = 0;

    for (size_t at = field_at(&right, 0); at < right.size; at = field_at(&right, at)) {
        struct text other = snapshot_of(0);

        if (value == NULL)
            other.bytes[at - 3] = '#';
        else if (strchr("{[", other.bytes[at]) == NULL)
            splice(&other, at, value_end(&other, at) - at, value);
        else
            splice(&other, at, 1, "7,");
        accepted += is_accepted(&other);
        free(other.bytes);
    }
    free(right.bytes);
    return accepted;
}

static void each_field(void)
{
    char text[600];

    for (size_t size = 0;; size++) {
        struct text cut = snapshot_of(0);
        bool is_whole = size == cut.size;

        cut.size = size;
        require(is_accepted(&cut) == is_whole, "a snapshot that is cut is accepted");
        free(cut.bytes);
        if (is_whole)
            break;
    }
    require(accepted_without(NULL) == OPTIONAL, "a snapshot without a field is accepted");
    require(accepted_without("18446744073709551616") == NOT_READ, "a huge number is accepted");
    require(accepted_without("-1") == NOT_READ, "a negative number is accepted");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    text[0] = text[sizeof text - 2] = '"';
    /* the statistics are a text that may be so long */
    require(accepted_without(text) == NOT_READ + EACH, "a long text is accepted");
}

/* Inserts after `before`, `count` times, `what` and a comma. */
static void insert(struct text *text, const char *before, const char *what, size_t count)
{
    char *at = memmem(text->bytes, text->size, before, strlen(before));
    size_t size = strlen(what);
    char *more = malloc(count * (size + 1) + 1), *end = more;

    require(at != NULL && more != NULL, "no memory");
    for (size_t i = 0; i < count; i++, end += size + 1) {
        memcpy(end, what, size);
        end[size] = ',';
    }
    *end = '\0';
    splice(text, (size_t)(at - text->bytes) + strlen(before), 0, more);
    free(more);
}

/* Is a rank with this number of entries accepted?  A page has space for INSPECT_ENTRIES; the
 * rank's own count is large. */
static bool is_accepted_with(uint32_t entries)
{
    static const char entry[] =
        "{\"kind\":\"posted\",\"peer\":0,\"address\":\"0000000000001000\",\"any_source\":false,"
        "\"context\":1,\"tag\":1,\"ignore\":0,\"size\":8,\"synchronous\":false,\"deferred\":"
        "false,"
        "\"internal\":false,\"rts\":false,\"id\":9,\"age\":0,\"count\":0,\"needs\":1,\"waited_"
        "ms\":1}";
    struct text text = snapshot_of(0);
    bool accepted;

    insert(&text, "\"entries\":[", entry, entries - 2); /* two are there already */
    splice(&text,
           field_at(&text, (size_t)((char *)memmem(text.bytes, text.size, "\"posted\":", 9) -
                                    text.bytes)),
           1, "5000");
    accepted = is_accepted(&text);
    free(text.bytes);
    return accepted;
}

/* A snapshot with the maximum that a host can report must never be refused. */
static void each_limit(void)
{
    struct text text = snapshot_of(0);
    char line[400], *printed;
    struct observed observed;
    size_t size;

    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    line[0] = line[sizeof line - 2] = '"';
    require(is_accepted_with(INSPECT_ENTRIES), "as many entries as there can be are refused");
    require(!is_accepted_with(INSPECT_ENTRIES + 1),
            "more entries than there can be are accepted");
    insert(&text, "\"others\":[", line, 100);
    require(read_text(&text, &observed), "a host with many programs is refused");
    observed.jobs[0].ranks[0].state.still_ns = 1;
    observed.jobs[0].ranks[0].state.now_ns = UINT64_MAX;
    printed = print(&observed, &size);
    observe_free(&observed);
    free(text.bytes);
    text = (struct text){printed, size};
    require(is_accepted(&text), "a rank in which nothing happens for 50 days is refused");
    free(text.bytes);
}

static void one_text(struct input *in)
{
    static bool is_looked_at;
    struct text text = snapshot_of(0);
    struct observed observed;
    bool is_right = in->size == 0, accepted;

    if (!is_looked_at) {
        each_field();
        each_limit();
    }
    is_looked_at = true;
    for (int i = 0; i < 6 && in->size != 0; i++)
        damage(&text, in);
    accepted = read_text(&text, &observed);
    require(accepted || !is_right, "a snapshot is refused");
    if (accepted)
        check_again(&observed);
    observe_free(&observed);
    free(text.bytes);
}

/* ---- several hosts ---- */

/* Sets of hosts over two inspections: never changed; missing in one. */
struct hosts_seen {
    unsigned right, gone;
};

static void look(struct input *in, struct hosts_seen *seen, struct observed *out)
{
    struct hosts_merge merge = {.count = 0};

    for (uint32_t host = 0; host < HOSTS; host++) {
        struct text text = snapshot_of(host);
        unsigned what = take(in);
        struct observed one;

        for (unsigned i = 0; i < what % 4 && in->size != 0; i++)
            damage(&text, in);
        if (what % 4 != 0)
            seen->right &= ~(1u << host);
        if (read_text(&text, &one) && what / 4 % 8 != 7)
            require(hosts_merge_add(&merge, &one) == 0, "no memory");
        else
            seen->gone |= 1u << host;
        observe_free(&one);
        if (what / 32 == 7) { /* the host answers twice */
            if (read_text(&text, &one))
                require(hosts_merge_add(&merge, &one) == 0, "no memory");
            observe_free(&one);
            seen->right = 0;
        }
        free(text.bytes);
    }
    require(hosts_merge_none(&merge, "h9", "exit status 255") == 0, "no memory");
    require(hosts_merge_end(&merge, out) == 0, "no memory");
}

static const struct inspect_job *job_of(const struct observed *observed, uint64_t job)
{
    for (uint32_t i = 0; i < observed->count; i++)
        if (observed->jobs[i].ranks[0].head.job == job)
            return &observed->jobs[i];
    return NULL;
}

/* Two hosts with the same id.  Is the second one reported as another host? */
static bool is_another(uint32_t host, const char *old, const char *with)
{
    struct hosts_merge merge = {.count = 0};
    struct text text[2] = {snapshot_of(0), snapshot_of(host)};
    struct observed one, out;
    bool is_said;
    char *at;

    while ((at = memmem(text[1].bytes, text[1].size, old, strlen(old))) != NULL)
        splice(&text[1], (size_t)(at - text[1].bytes), strlen(old), with);
    for (int i = 0; i < 2; i++) {
        require(read_text(&text[i], &one) && hosts_merge_add(&merge, &one) == 0, "a host");
        observe_free(&one);
        free(text[i].bytes);
    }
    require(hosts_merge_end(&merge, &out) == 0, "no memory");
    is_said = out.host_count == 2 && !out.hosts[1].has_answered;
    require(out.hosts[0].has_answered && out.jobs[0].count == EACH &&
                (is_said || out.host_count == 1),
            "a host is not the one that it was");
    observe_free(&out);
    return is_said;
}

static void each_id(void)
{
    require(!is_another(0, "\"h0\"", "\"container\""),
            "who shows the same processes is another host");
    require(is_another(1, "0000000000000002", "0000000000000001"),
            "two hosts of one id are one in silence");
}

static void several(struct input *in)
{
    static const struct inspect_job none;
    struct observed before, now;
    const unsigned all = (1u << HOSTS) - 1;
    struct hosts_seen seen = {.right = all};
    char *said = NULL;
    size_t size;
    FILE *out = open_memstream(&said, &size);
    static bool is_looked_at;

    if (!is_looked_at)
        each_id();
    is_looked_at = true;
    look(in, &seen, &before);
    look(in, &seen, &now);
    seen.right &= ~seen.gone;
    require(out != NULL, "no memory");
    for (uint32_t i = 0; i < now.count; i++) {
        const struct inspect_job *job = &now.jobs[i];
        const struct inspect_job *was = job_of(&before, job->ranks[0].head.job);
        enum inspect_node *nodes = calloc(job->count, sizeof *nodes);
        enum diagnose_verdict verdict;
        uint32_t dead = 0;

        require(nodes != NULL, "no memory");
        verdict = diagnose_judge(was != NULL ? was : &none, job, nodes);
        for (uint32_t r = 0; r < job->count; r++)
            dead += nodes[r] == INSPECT_DEADLOCKED;
        if (seen.right == all)
            require(dead == RANKS, "the ring is not found");
        else if ((seen.right | seen.gone) == all)
            require(dead == 0, "who waits for a host that is not known is called deadlocked");
        require(dead == 0 || was != NULL, "who was seen once is called deadlocked");
        diagnose_say(out, was != NULL ? was : &none, job, nodes, verdict);
        free(nodes);
    }
    require(fclose(out) == 0 && is_printable(said), "what is said is not to be printed");
    free(said);
    free(print(&now, &size));
    observe_free(&before);
    observe_free(&now);
}

/* ---- lines ---- */

static const char *const said[] = {
    "Warning: permanently added a host\n", "@mbx", "@mbx2 1 2\n",
    "@mbx1 0000000000000001 0 1 9 {}\n",   "\n",   "[1,0]<stdout>:"};

/* Makes lines with the hash (FNV-1a) of snapshot.c, but of a size that a snapshot does not
 * have. */
static struct text lines_of(const struct text *text, uint64_t stream, size_t each)
{
    struct text lines = {NULL, 0};
    FILE *out = open_memstream(&lines.bytes, &lines.size);
    size_t count = (text->size + each - 1) / each;

    require(out != NULL, "no memory");
    for (size_t i = 0; i < count; i++) {
        size_t size = min_size(each, text->size - i * each);
        char line[1200];
        int used = snprintf(line, sizeof line, "@mbx1 %016" PRIx64 " %zu %zu %zu %.*s", stream,
                            i, count, size, (int)size, text->bytes + i * each);
        uint32_t check = UINT32_C(0x811c9dc5);

        for (int c = 0; c < used; c++)
            check = (check ^ (unsigned char)line[c]) * UINT32_C(0x01000193);
        fprintf(out, "%s %08" PRIx32 "\n", line, check);
    }
    require(fclose(out) == 0, "no memory");
    return lines;
}

/* The texts of all launchers in an inspection share one limit. */
static void each_byte(void)
{
    static struct snapshots two[2];
    struct text right = snapshot_of(0), all = lines_of(&right, 5, 400);
    size_t bytes = SNAPSHOT_BYTES - 2 * right.size + 1;

    for (int i = 0; i < 2; i++) {
        two[i] = (struct snapshots){.bytes = &bytes};
        snapshots_add(&two[i], 0, all.bytes, all.size);
        snapshots_end(&two[i]);
        require(two[i].count == 1 && snapshot_is_whole(&two[i].all[0]) == (i == 0) &&
                    two[i].is_full == (i == 1) && bytes <= SNAPSHOT_BYTES,
                "the limit of a look is not that of all its launchers");
    }
    snapshots_free(&two[0]);
    snapshots_free(&two[1]);
    free(all.bytes);
    free(right.bytes);
}

static void lines(struct input *in)
{
    static bool is_looked_at;
    static struct snapshots snapshots;
    size_t each = 50 + (size_t)take(in) % 8 * 50;
    struct text right = snapshot_of(0), all = lines_of(&right, 5, each);
    bool is_right = in->size == 0;

    if (!is_looked_at)
        each_byte();
    is_looked_at = true;
    for (int i = 0; i < 4 && in->size != 0; i++) {
        unsigned kind = take(in) % 3;

        if (kind == 0)
            damage(&all, in);
        else if (kind == 1)
            splice(&all, place(in, all.size), 0, said[take(in) % ARRAY_COUNT(said)]);
        else if (all.size > 1000) /* removes a piece, so that later ones move */
            splice(&all, place(in, all.size - 600), take(in) % 600, "");
    }
    for (size_t at = 0, size; at < all.size; at += size) {
        size = min_size(all.size - at, (size_t)take(in) * 16 + 1);
        snapshots_add(&snapshots, 0, all.bytes + at, size);
    }
    snapshots_end(&snapshots);
    require(!is_right || snapshots.count == 1, "a snapshot is not found");
    for (uint32_t i = 0; i < snapshots.count; i++) {
        const struct snapshot *one = &snapshots.all[i];
        struct text text = {one->text, one->size};
        struct observed observed;

        if (!snapshot_is_whole(one)) {
            require(!is_right, "a snapshot is not whole");
            continue;
        }
        if (one->stream == 5)
            require(one->size == right.size && memcmp(one->text, right.bytes, one->size) == 0,
                    "a snapshot is another one");
        read_text(&text, &observed);
        observe_free(&observed);
    }
    snapshots_free(&snapshots);
    free(all.bytes);
    free(right.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    switch (take(&in) % 3) {
    case 0:
        one_text(&in);
        break;
    case 1:
        several(&in);
        break;
    default:
        lines(&in);
        break;
    }
    return 0;
}
