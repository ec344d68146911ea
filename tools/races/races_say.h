/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_say.h - what `mbx exec --races` says at its end.
 */
#ifndef TOOLS_RACES_SAY_H
#define TOOLS_RACES_SAY_H

/* Reads the run of this folder, and says in one line how many receives could have matched differently. */
void races_say(const char *folder);

#endif
