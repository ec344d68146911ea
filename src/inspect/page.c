/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page.c - see page.h.
 */
#include "inspect/page.h"

#include <string.h>

static const char *const kind_names[INSPECT_KINDS] = {
    [INSPECT_NONE] = "none",
    [INSPECT_POSTED] = "posted",
    [INSPECT_UNEXPECTED] = "unexpected",
    [INSPECT_SEND] = "send",
    [INSPECT_SENDING] = "sending",
    [INSPECT_RECEIVING] = "receiving",
    [INSPECT_ACCESS] = "access",
    [INSPECT_PROBE] = "probe",
    [INSPECT_PROBED] = "probed",
};

const char *inspect_kind_name(unsigned kind)
{
    return kind < INSPECT_KINDS ? kind_names[kind] : "unknown";
}

uint64_t inspect_address_name(const void *address, size_t size, size_t skip)
{
    const unsigned char *bytes = address;
    uint64_t name = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++) {
        name ^= i - skip < 4 ? 0 : bytes[i];
        name *= UINT64_C(0x100000001b3);
    }
    return name != 0 ? name : 1;
}

static bool is_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\0')
            return true;
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] >= 127)
            return false;
    }
    return false;
}

bool inspect_head_is_other(const struct inspect_head *head)
{
    return memcmp(head->magic, INSPECT_MAGIC, sizeof head->magic) == 0 &&
           head->version != INSPECT_VERSION && is_text(head->library, sizeof head->library);
}

const char *inspect_head_check(const struct inspect_head *head, uint32_t pid)
{
    if (memcmp(head->magic, INSPECT_MAGIC, sizeof head->magic) != 0)
        return "it does not begin with " INSPECT_MAGIC;
    if (head->version != INSPECT_VERSION || head->size != INSPECT_PAGE_SIZE)
        return "it is of another version of Matchbox";
    if (head->pid != pid)
        return "it belongs to another process";
    if (!is_text(head->library, sizeof head->library) || !is_text(head->mpi, sizeof head->mpi))
        return "a text in it is damaged";
    return NULL;
}

static const char *check_state(const struct inspect_state *state,
                               const struct inspect_entry *entries)
{
    uint64_t all = 0;

    if (state->entries > INSPECT_ENTRIES || state->text_size > INSPECT_TEXT_SIZE ||
        state->frames > INSPECT_FRAMES || !is_text(state->call, sizeof state->call))
        return "its answer is damaged";
    if (state->callers > INSPECT_CALLERS + 1 || state->answerer > INT32_MAX)
        return "its answer is damaged";
    for (unsigned i = 0; i < INSPECT_CALLERS; i++)
        if (state->caller_ids[i] > INT32_MAX)
            return "its answer is damaged";
    for (unsigned kind = 0; kind < INSPECT_KINDS; kind++)
        all += state->counts[kind];
    if (state->entries > all)
        return "its answer has more entries than it counts";
    for (uint32_t i = 0; i < state->entries; i++)
        if (entries[i].kind == INSPECT_NONE || entries[i].kind >= INSPECT_KINDS)
            return "an entry of it is of no kind";
    return NULL;
}

const char *inspect_page_check(const void *page, uint32_t pid)
{
    const struct inspect_page *p = page;
    const char *wrong = inspect_head_check(&p->head, pid);

    if (wrong != NULL)
        return wrong;
    return check_state(
        &p->state,
        (const struct inspect_entry *)(const void *)((const char *)page + INSPECT_ENTRIES_AT));
}
