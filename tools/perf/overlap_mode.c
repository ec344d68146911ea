/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_mode.c - the names of modes, and their parameters.
 *
 *   name               MBX_MATCH  MBX_DEVICE   MBX_RNDV
 *   software           software   none         read+split, or another value without writes by senders
 *   early              software   none         auto, or another value with writes by senders
 *   DEVICE             split      DEVICE     (also written split/DEVICE)
 *   device/DEVICE      device     DEVICE
 *
 * The parameters of a build list its devices, so a device that is added later needs
 * no change here.  A build that has neither parameter matches in software.
 */
#include "overlap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static const char *const devices[] = {"soft", "soft-thread", "soft-process"};

static bool find_param(const char *name, struct mbx_param *param)
{
    for (unsigned i = 0; mbx_param_get(i, param, sizeof *param) == 0; i++)
        if (strcmp(param->name, name) == 0)
            return true;
    return false;
}

/* Is word one of "a|b|c"? */
static bool is_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);

    for (const char *p = choices;; p++) {
        size_t n = strcspn(p, "|");

        if (n == length && strncmp(p, word, n) == 0)
            return true;
        p += n;
        if (*p == '\0')
            return false;
    }
}

static bool takes(const char *name, const char *value)
{
    struct mbx_param param;

    return find_param(name, &param) && is_choice(param.range, value);
}

static bool is_device(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(devices); i++)
        if (strcmp(devices[i], name) == 0)
            return true;
    return strcmp(name, "none") != 0 && takes("MBX_DEVICE", name);
}

/* Gives a mode its standard name, whichever form the user wrote. */
static void name_mode(struct overlap_mode *mode)
{
    if (strcmp(mode->match, "software") == 0 || strcmp(mode->device, "none") == 0)
        *mode = mode->writes ? (struct overlap_mode){"early", "software", "none", true}
                             : (struct overlap_mode){"software", "software", "none", false};
    else if (strcmp(mode->match, "split") == 0)
        snprintf(mode->name, sizeof mode->name, "%s", mode->device);
    else
        snprintf(mode->name, sizeof mode->name, "%s/%s", mode->match, mode->device);
}

bool overlap_mode_find(const char *name, struct overlap_mode *mode)
{
    const char *slash = strchr(name, '/');
    const char *device = slash != NULL ? slash + 1 : name;
    struct overlap_mode found = {.match = "split", .writes = true};

    if (strlen(name) >= sizeof found.name || strlen(device) >= sizeof found.device)
        return false;
    if (slash != NULL)
        snprintf(found.match, sizeof found.match, "%.*s", (int)min_size(slash - name, 15),
                 name);
    if (strcmp(found.match, "device") != 0 && strcmp(found.match, "split") != 0)
        return false;
    if (strcmp(name, "software") == 0 || strcmp(name, "early") == 0) {
        snprintf(found.match, sizeof found.match, "software");
        found.writes = strcmp(name, "early") == 0;
        device = "none";
    } else if (!is_device(device)) {
        return false;
    }
    snprintf(found.device, sizeof found.device, "%s", device);
    name_mode(&found);
    *mode = found;
    return true;
}

bool overlap_mode_is_here(const struct overlap_mode *mode)
{
    return strcmp(mode->match, "software") == 0 ||
           (takes("MBX_MATCH", mode->match) && takes("MBX_DEVICE", mode->device));
}

static int set_param(const char *name, const char *value)
{
    if (!takes(name, value))
        return 0;
    return setenv(name, value, 1) < 0 ? -errno : 0;
}

/* May senders write into receives with the present MBX_RNDV? */
static bool let_write(void)
{
    struct mbx_param param;

    return find_param("MBX_RNDV", &param) &&
           (strcmp(param.value, "auto") == 0 || strstr(param.value, "write") != NULL);
}

int overlap_mode_enter(const struct overlap_mode *mode)
{
    int err = set_param("MBX_MATCH", mode->match);

    if (err == 0)
        err = set_param("MBX_DEVICE", mode->device);
    return err != 0 || let_write() == mode->writes
               ? err
               : set_param("MBX_RNDV", mode->writes ? "auto" : "read+split");
}

void overlap_mode_now(struct overlap_mode *mode)
{
    struct mbx_param param;

    *mode = (struct overlap_mode){.match = "software", .device = "none", .writes = let_write()};
    if (find_param("MBX_MATCH", &param))
        snprintf(mode->match, sizeof mode->match, "%.15s", param.value);
    if (find_param("MBX_DEVICE", &param))
        snprintf(mode->device, sizeof mode->device, "%.31s", param.value);
    name_mode(mode);
}

/* True for the software adapter, which uses a core in any mode. */
static bool has_software_adapter(void)
{
    struct mbx_param transport, library;

    return find_param("MBX_TRANSPORT", &transport) &&
           strstr(transport.value, "verbs") != NULL &&
           find_param("MBX_VERBS_LIBRARY", &library) &&
           strstr(library.value, "libmbx-adapter") != NULL;
}

bool overlap_mode_is_apart(const struct overlap_mode *mode)
{
    return (strcmp(mode->device, "none") != 0 && strcmp(mode->device, "soft") != 0) ||
           has_software_adapter();
}
