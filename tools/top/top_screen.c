/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top_screen.c - the screen of `mbx top`, by ncurses, which is loaded on first use.
 */
#include "top.h"

#if MBX_CURSES

#define NCURSES_NOMACROS /* no macros in place of functions */
#include <ncurses.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/loaded.h"

/* The functions of ncurses that are called. */
static struct {
    void *handle;
    SCREEN *screen;
    WINDOW **window; /* the whole screen; a pointer, because ncurses replaces the window when
                      * the size changes */
    __typeof__(&newterm) open;
    __typeof__(&endwin) close;
    __typeof__(&delscreen) destroy;
    __typeof__(&cbreak) unbuffered;
    __typeof__(&noecho) silent;
    __typeof__(&curs_set) cursor;
    __typeof__(&keypad) keys;
    __typeof__(&wtimeout) timeout;
    __typeof__(&wgetch) key;
    __typeof__(&werase) erase;
    __typeof__(&wmove) move;
    __typeof__(&waddnstr) add;
    __typeof__(&wattrset) attributes;
    __typeof__(&wrefresh) refresh;
    __typeof__(&getmaxx) columns;
    __typeof__(&getmaxy) lines;
} curses;

static bool load(void)
{
    static const char *const libraries[] = {"libncursesw.so.6", "libncurses.so.6", NULL};
    const struct loaded all[] = {
        {"stdscr", &curses.window},     {"newterm", &curses.open},
        {"endwin", &curses.close},      {"delscreen", &curses.destroy},
        {"cbreak", &curses.unbuffered}, {"noecho", &curses.silent},
        {"curs_set", &curses.cursor},   {"keypad", &curses.keys},
        {"wtimeout", &curses.timeout},  {"wgetch", &curses.key},
        {"werase", &curses.erase},      {"wmove", &curses.move},
        {"waddnstr", &curses.add},      {"wattrset", &curses.attributes},
        {"wrefresh", &curses.refresh},  {"getmaxx", &curses.columns},
        {"getmaxy", &curses.lines},
    };

    curses.handle = loaded_open(libraries, all, ARRAY_COUNT(all));
    return curses.handle != NULL;
}

const char *top_screen_open(void)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return "it needs a terminal";
    if (!load())
        return "libncursesw.so.6 cannot be loaded (Debian: libncursesw6)";
    curses.screen = curses.open(NULL, stdout, stdin);
    if (curses.screen == NULL)
        return "TERM names no terminal that ncurses knows";
    curses.unbuffered();
    curses.silent();
    curses.cursor(0);
    curses.keys(*curses.window, TRUE);
    return NULL;
}

void top_screen_close(void)
{
    curses.close();
    curses.destroy(curses.screen);
}

void top_screen_show(const char *text, uint32_t first)
{
    int height = curses.lines(*curses.window), width = curses.columns(*curses.window);
    uint32_t line = 0;

    curses.erase(*curses.window);
    for (int row = 0; *text != '\0' && row < height; line++) {
        size_t length = strcspn(text, "\n");
        bool is_marked = *text == TOP_HEADING || *text == TOP_VERDICT;

        if (line == 0 || line >= first + 1) { /* the first line is always shown */
            curses.attributes(*curses.window, *text == TOP_HEADING   ? (int)A_REVERSE
                                              : *text == TOP_VERDICT ? (int)A_BOLD
                                                                     : (int)A_NORMAL);
            curses.move(*curses.window, row++, 0);
            curses.add(
                *curses.window, text + is_marked,
                (int)(length - is_marked < (size_t)width ? length - is_marked : (size_t)width));
        }
        text += length + (text[length] == '\n');
    }
    curses.refresh(*curses.window);
}

enum top_key top_screen_key(int wait_ms)
{
    curses.timeout(*curses.window, wait_ms);
    switch (curses.key(*curses.window)) {
    case 'q':
        return TOP_KEY_QUIT;
    case 'w':
        return TOP_KEY_WAITS;
    case 'r':
        return TOP_KEY_RANK;
    case KEY_UP:
        return TOP_KEY_UP;
    case KEY_DOWN:
        return TOP_KEY_DOWN;
    case KEY_RESIZE:
        return TOP_KEY_REDRAW;
    default:
        return TOP_KEY_NONE;
    }
}

#else

const char *top_screen_open(void)
{
    return "this mbx was built without ncurses";
}

void top_screen_close(void)
{
}

void top_screen_show(const char *text, uint32_t first)
{
    (void)text;
    (void)first;
}

enum top_key top_screen_key(int wait_ms)
{
    (void)wait_ms;
    return TOP_KEY_QUIT;
}

#endif
