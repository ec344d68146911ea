/* SPDX-License-Identifier: BSD-3-Clause */
/* text_test.c - valid characters stay; terminal commands and invalid UTF-8 are replaced. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"
#include "base/unit.h"

static void expect(const char *from, const char *to)
{
    char text[128];

    snprintf(text, sizeof text, "%s", from);
    text_make_printable(text, '?', false);
    assert_string_equal(text, to);
}

static void characters_stay(UNUSED void **state)
{
    expect("", "");
    expect("plain ~ text", "plain ~ text");
    expect("gr\xc3\xbc\xc3\x9f dich", "gr\xc3\xbc\xc3\x9f dich");
    expect("\xe6\xb1\xba \xf0\x9f\x9a\x80 \xc2\xa0", "\xe6\xb1\xba \xf0\x9f\x9a\x80 \xc2\xa0");
}

static void commands_to_a_terminal_do_not(UNUSED void **state)
{
    expect("\x1b[2J\x07\x7f", "?[2J??");
    expect("a\nmatchbox[1]: error: b", "a?matchbox[1]: error: b");
    expect("\x9b"
           "31m raw",
           "?31m raw");
    expect("\xc2\x9b"
           "31m in UTF-8",
           "??31m in UTF-8");
    expect("\xc2\x80\xc2\x9f\xc2\xa0", "????\xc2\xa0");
    expect("\xe2\x80\xae"
           "abc \xe2\x80\xa8"
           "d \xe2\x81\xa6",
           "???abc ???d ???");
}

static void what_is_no_utf8_does_not(UNUSED void **state)
{
    expect("\xff\xfe x", "?? x");
    expect("\xc0\xaf \xe0\x80\xaf", "?? ???");      /* overlong forms */
    expect("\xed\xa0\x80", "???");                  /* a single surrogate */
    expect("\xf4\x90\x80\x80 \xf8\x88", "???? ??"); /* beyond the last character */
    expect("cut \xe6\xb1", "cut ??");
    expect("\xe6\x41", "?A");
}

static void every_short_sequence_is_valid_after_it(UNUSED void **state)
{
    char text[5];

    for (uint32_t i = 0; i < UINT32_C(1) << 24; i += 1 + i % 3) {
        memcpy(text, &i, 4);
        text[3] = '\0';
        text_make_printable(text, '?', false);
        for (const char *at = text; *at != '\0'; at += text_character(at))
            assert_true(text_character(at) != 0);
    }
}

static void a_part_keeps_the_character_at_its_end(UNUSED void **state)
{
    char text[16] = "a\x9b\xe6\xb1";

    text_make_printable(text, '?', true);
    assert_string_equal(text, "a?\xe6\xb1");
    strcat(text, "\xba");
    text_make_printable(text, '?', false);
    assert_string_equal(text, "a?\xe6\xb1\xba");
}

static void lines_stay_lines(UNUSED void **state)
{
    char text[] = "one\x1b\ntwo\xff\n";

    text_make_lines_printable(text, ' ');
    assert_string_equal(text, "one \ntwo \n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_stay),
        cmocka_unit_test(commands_to_a_terminal_do_not),
        cmocka_unit_test(what_is_no_utf8_does_not),
        cmocka_unit_test(every_short_sequence_is_valid_after_it),
        cmocka_unit_test(a_part_keeps_the_character_at_its_end),
        cmocka_unit_test(lines_stay_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
