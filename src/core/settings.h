/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings.h - the parameters of an endpoint, constant once it is open; settings.c reads them.
 */
#ifndef CORE_SETTINGS_H
#define CORE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/param.h"
#include "core/tuning.h"
#include "transport/mux.h"

/* The protocols for long messages; INSIST: used even where they seem to be of no use. */
enum rndv_choice {
    RNDV_AUTO,
    RNDV_READ_ALONE,
    RNDV_READ_AND_WRITE,
    RNDV_READ_AND_SPLIT_COPY,
    RNDV_INSIST_WRITE,
    RNDV_INSIST_SPLIT_COPY,
    RNDV_DATA
};
enum threads_choice { THREADS_ONE, THREADS_MANY };
enum device_choice {
    DEVICE_NONE,
    DEVICE_SOFT,
    DEVICE_SOFT_THREAD,
    DEVICE_SOFT_PROCESS,
    DEVICE_VERBS
};
enum match_at_choice { MATCH_AT_RECEIVER, MATCH_AT_SENDER };
enum oversubscribed_choice { OVERSUBSCRIBED_AUTO, OVERSUBSCRIBED_YES, OVERSUBSCRIBED_NO };
enum trace_for_choice { TRACE_FOR_ALL, TRACE_FOR_RACES };
enum hang_then_choice { HANG_GO_ON, HANG_ABORT };
enum match_choice { MATCH_SPLIT, MATCH_SOFTWARE, MATCH_DEVICE };
enum device_holds_choice { DEVICE_HOLDS_AUTO, DEVICE_HOLDS_YES, DEVICE_HOLDS_NO };

/* Words in place of a number: param.h. */
#define SETTING_AUTO      UINT64_MAX
#define SETTING_UNLIMITED (UINT64_MAX - 1)

/* The most requests of an endpoint at one time: they would use more than 200 GiB. */
#define REQUESTS_MOST (UINT32_C(1) << 30)

struct settings {
    uint64_t log_level;
    uint64_t transport; /* 0: auto; otherwise index + 1 of transport_at() */
    uint64_t threads;   /* enum threads_choice */
    uint64_t eager_limit;
    uint64_t rndv;           /* enum rndv_choice */
    uint64_t requests;       /* unlimited: more than REQUESTS_MOST */
    uint64_t match_at;       /* enum match_at_choice */
    uint64_t oversubscribed; /* enum oversubscribed_choice */
    uint64_t unexpected_memory, window, window_payload;
    uint64_t spin_ns, close_timeout_ns, peer_timeout_ns, boot_timeout_ns;
    uint64_t peers_max;
    uint64_t device; /* enum device_choice */
    uint64_t match;  /* enum match_choice */
    uint64_t device_list, device_threshold;
    uint64_t device_holds; /* enum device_holds_choice */
    char device_tag_format[PARAM_STRING_MAX];
    char verbs_library[PARAM_STRING_MAX];
    uint64_t inspect, leaks;       /* 1 or 0 */
    uint64_t strict_sends;         /* 1 or 0; of the component */
    uint64_t replay_on_divergence; /* 0 stop, 1 go; of the component */
    uint64_t shuffle;              /* a seed, 0 none; of the component */
    uint64_t hang_ns;              /* 0: never */
    uint64_t hang_then;            /* enum hang_then_choice */
    char stats_file[PARAM_STRING_MAX];
    char key[PARAM_STRING_MAX];
    char trace_folder[PARAM_STRING_MAX];
    uint64_t trace_for; /* enum trace_for_choice */
    uint64_t flight;    /* events; 0: none */
    char flight_folder[PARAM_STRING_MAX];
    struct tuning tuning; /* derived from the others */
    struct transport_settings transports;
};

/* Was this library built with devices?  If not, a setting that requests one is refused. */
extern const bool devices_present;

/* Reads the environment and the overrides; logs errors.  0; -EINVAL; -ENOMEM. */
int settings_load(struct settings *settings, const char *const *overrides);

/* MBX_KEY; all zero if it is not set.  0; -EINVAL it is not a key, which is logged. */
int settings_key(const struct settings *settings, uint8_t *key, size_t size);

#endif
