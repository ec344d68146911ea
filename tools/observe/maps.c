/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maps.c - see maps.h.
 */
#include "maps.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool maps_open(struct maps *maps, uint32_t pid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", pid);
    *maps = (struct maps){.file = fopen(path, "re"), .left = MAPS_MAX};
    return maps->file != NULL;
}

bool maps_next(struct maps *maps, struct maps_range *range)
{
    int at = 0;

    if (maps->left == 0 || getline(&maps->line, &maps->size, maps->file) <= 0)
        return false;
    maps->left--;
    maps->line[strcspn(maps->line, "\n")] = '\0';
    *range = (struct maps_range){.path = ""};
    if (sscanf(maps->line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &range->start,
               &range->end, range->access, &range->offset, &at) != 4)
        return false;
    if (at != 0)
        range->path = maps->line + at;
    return true;
}

void maps_close(struct maps *maps)
{
    free(maps->line);
    if (maps->file != NULL)
        fclose(maps->file);
}

const char *maps_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

bool maps_is_library(const char *file_name, const char *library)
{
    size_t length = strlen(library);

    return strncmp(file_name, library, length) == 0 &&
           (library[length - 1] == '_' || !isalnum((unsigned char)file_name[length]));
}
