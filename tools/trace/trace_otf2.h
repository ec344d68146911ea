/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_otf2.h - a job as a trace of OTF2.
 */
#ifndef TOOLS_TRACE_OTF2_H
#define TOOLS_TRACE_OTF2_H

#include "trace_job.h"

/* Why no trace of OTF2 can be written, in words; NULL: one can.  Loads OTF2's library. */
const char *job_otf2_missing(void);

/* If none is missing: writes a trace of OTF2 into this folder, which must not be there; its
 * anchor is FOLDER/traces.otf2.
 * 0; -EEXIST; -ENOMEM; -EIO, after OTF2 has said on standard error what is wrong. */
int job_write_otf2(const struct job *job, const char *folder);

#endif
