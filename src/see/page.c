/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page.c - see page.h.
 */
#include "see/page.h"

#include <string.h>

static const char *const kind_names[SEE_KINDS] = {
    [SEE_NONE] = "none",     [SEE_POSTED] = "posted",   [SEE_UNEXPECTED] = "unexpected",
    [SEE_SEND] = "send",     [SEE_SENDING] = "sending", [SEE_RECEIVING] = "receiving",
    [SEE_ACCESS] = "access", [SEE_PROBE] = "probe",     [SEE_PROBED] = "probed",
};

const char *see_kind_name(unsigned kind)
{
    return kind < SEE_KINDS ? kind_names[kind] : "unknown";
}

uint64_t see_address_name(const void *address, size_t size, size_t skip)
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

bool see_head_is_other(const struct see_head *head)
{
    return memcmp(head->magic, SEE_MAGIC, sizeof head->magic) == 0 &&
           head->version != SEE_VERSION && is_text(head->library, sizeof head->library);
}

const char *see_head_check(const struct see_head *head, uint32_t pid)
{
    if (memcmp(head->magic, SEE_MAGIC, sizeof head->magic) != 0)
        return "it does not begin with " SEE_MAGIC;
    if (head->version != SEE_VERSION || head->size != SEE_PAGE_SIZE)
        return "it is of another version of Matchbox";
    if (head->pid != pid)
        return "it belongs to another process";
    if (!is_text(head->library, sizeof head->library) || !is_text(head->mpi, sizeof head->mpi))
        return "a text in it is damaged";
    return NULL;
}

static const char *check_state(const struct see_state *state, const struct see_entry *entries)
{
    uint64_t all = 0;

    if (state->entries > SEE_ENTRIES || state->text_size > SEE_TEXT_SIZE ||
        state->frames > SEE_FRAMES || !is_text(state->call, sizeof state->call))
        return "its answer is damaged";
    for (unsigned kind = 0; kind < SEE_KINDS; kind++)
        all += state->counts[kind];
    if (state->entries > all)
        return "its answer has more entries than it counts";
    for (uint32_t i = 0; i < state->entries; i++)
        if (entries[i].kind == SEE_NONE || entries[i].kind >= SEE_KINDS)
            return "an entry of it is of no kind";
    return NULL;
}

const char *see_page_check(const void *page, uint32_t pid)
{
    const struct see_page *p = page;
    const char *wrong = see_head_check(&p->head, pid);

    if (wrong != NULL)
        return wrong;
    return check_state(&p->state, (const struct see_entry *)(const void *)((const char *)page +
                                                                           SEE_ENTRIES_AT));
}
