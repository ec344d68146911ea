/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c - ucp_config_read() and its relatives.
 *
 * UCX's variables have no effect here, which one line at level info says, with their names.  A value that a client
 * sets is kept and printed, and has no effect either.
 */
#include "ucp/door.h"

#include <stdio.h>
#include <string.h>

#include "base/environ.h"
#include "base/log.h"
#include "base/mem.h"

#define NAMES_MAX 256

extern char **environ;

struct setting {
    struct list link;
    char text[]; /* NAME=VALUE */
};

struct ucp_config {
    struct list settings;
};

static void say_variables(void)
{
    static atomic_bool is_said;
    char names[NAMES_MAX] = "";
    size_t used = 0;

    for (char **at = environ; *at != NULL; at++) {
        size_t length = strcspn(*at, "=");

        if (strncmp(*at, "UCX_", 4) != 0 || used + length + 3 > sizeof names)
            continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s",
                                 used == 0 ? "" : ", ", (int)length, *at);
    }
    if (used != 0 && !environ_is_privileged() && !atomic_exchange(&is_said, true))
        LOG_INFO("libucp: %s have no effect; set MBX_ parameters instead", names);
}

ucs_status_t ucp_config_read(const char *env_prefix, const char *filename,
                             ucp_config_t **config_p)
{
    struct ucp_config *config = mem_alloc(sizeof *config);

    (void)env_prefix;
    (void)filename;
    if (config == NULL)
        return UCS_ERR_NO_MEMORY;
    list_init(&config->settings);
    say_variables();
    *config_p = config;
    return UCS_OK;
}

ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    struct setting *setting = mem_alloc(sizeof *setting + size);

    if (setting == NULL)
        return UCS_ERR_NO_MEMORY;
    list_init_node(&setting->link);
    snprintf(setting->text, size, "%s=%s", name, value);
    list_add_tail(&config->settings, &setting->link);
    return UCS_OK;
}

void ucp_config_print(const ucp_config_t *config, FILE *stream, const char *title,
                      ucs_config_print_flags_t print_flags)
{
    const struct list *node;

    (void)print_flags;
    fprintf(stream, "# %s: libucp over Matchbox; the names below have no effect\n",
            title != NULL ? title : "UCX");
    list_for_each (node, &config->settings)
        fprintf(stream, "%s\n", container_of(node, struct setting, link)->text);
}

void ucp_config_release(ucp_config_t *config)
{
    struct list *node;

    while ((node = list_pop_head(&config->settings)) != NULL)
        mem_free(container_of(node, struct setting, link));
    mem_free(config);
}
