/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hold.pml - unexpected messages that the device holds, and matches.
 *
 *   senders        device                              software                  user
 *
 *   message ---->  armed entry fits: matched           shadow list  <----------  post
 *                  else found + 1, passed on ------->  unexpected   <----------  probe, cancel
 *                                                      messages
 *                  held messages  <-------- HOLD ----  a message that stays
 *                  entries        <-------- ADD -----  a receive: of the shadow list, or one
 *                     |                                that has found a held message ("paired")
 *                     an entry that becomes armed is compared with the held messages, oldest first
 *                     '-> completion: this receive, that held message
 *                                 <-------- UNHOLD --  a held message that stays in software
 *
 * Software knows the message of each receive when the receive is posted: its unexpected messages
 * are the shadow of the held messages.  So the device's answer is known in advance, and only the
 * paired receive waits for it.  src/device/host/held.h explains this; here it is checked,
 * whatever is slow:
 *
 *   H1  a held message is matched with the receive that software has paired it with
 *   H2  UNHOLD succeeds: software takes back only messages that the device has not matched
 *   H3  no other message is matched with a receive that is paired
 *   M1  a message is matched once           M2  a receive is matched once
 *   M4  of the messages that a receive accepts, it gets the earliest
 *   M5  of the receives that accept a message, the earliest gets it
 *   R1  when nothing moves any more every paired receive has its message, and every queue is empty
 *   R2  ... and no unexpected message waits together with a receive that accepts it
 *
 * The count that keeps arrivals from passing messages in flight to software, a second path, and the take-back of all
 * receives are in handover.pml.
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#ifndef TAGS
#define TAGS 2
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef PROBES /* matched probes */
#define PROBES 0
#endif
#ifndef LOSS /* software may give the device up at any time */
#define LOSS 0
#endif

/* Mistakes. */
#ifndef NO_UNHOLD /* a held message that stays in software is not taken back */
#define NO_UNHOLD 0
#endif
#ifndef HOLD_LATE /* messages are held later, in any order */
#define HOLD_LATE 0
#endif
#ifndef HOLD_FIRST /* a message is held before it is compared with the shadow list */
#define HOLD_FIRST 0
#endif
#ifndef ARM_PAST /* an entry is armed without a comparison with the held messages */
#define ARM_PAST 0
#endif
#ifndef OVERTAKE /* commands may be carried out in any order */
#define OVERTAKE 0
#endif
#ifndef YOUNGEST /* an entry takes the youngest held message */
#define YOUNGEST 0
#endif
#ifndef PAIR_ANY /* a receive whose message is not held is handed over too */
#define PAIR_ANY 0
#endif
#ifndef PROBE_PROMISED /* a probe sees a message that a receive has found but not got */
#define PROBE_PROMISED 0
#endif
#ifndef SWEEP_EARLY /* a lost device's receives get their messages before its queue is empty */
#define SWEEP_EARLY 0
#endif

#define ANY  2
#define NONE MESSAGES
#define CAPACITY (2 * RECEIVES + 2 * MESSAGES + 1)

/* A message: not sent yet; between the two contexts; unexpected; promised to a paired receive;
 * matched; taken by a probe. */
mtype:message = { coming, passed, kept, promised, given, probed };
/* A receive: not posted; in software only; in the device; a cancel has begun; paired; ended;
 * cancelled. */
mtype:receive = { unposted, waiting, handed, revoked, paired, ended, cancelled };
mtype:command = { add, drop, revoke, hold, unhold, sync };
mtype:completion = { match, unexpected, held_match, revoke_done, unhold_done };

byte arrived, posted, cancels, probes;
mtype:message at[MESSAGES] = coming;
bit tag[MESSAGES];
mtype:receive shadow[RECEIVES] = unposted;
byte want[RECEIVES];
byte pair[RECEIVES];  /* message + 1 */
bit is_held[MESSAGES]; /* software has given it to the device, and not taken it back */
byte handled, told, closed, swept;
byte in_hand;          /* HOLD_FIRST: held, but not compared yet, + 1 */
byte may_go, are_kept, are_late; /* sets: receives that may be handed over; kept messages; messages
                                  * that are not held */

byte entry[RECEIVES], entries, armed;
byte held[MESSAGES], helds; /* the held messages, oldest first */
byte found, reported;
byte got[RECEIVES];

chan commands = [CAPACITY] of { mtype:command, byte, byte };
chan completions = [CAPACITY] of { mtype:completion, byte, byte };

byte i, k, m, r, count;
bit ok;
mtype:command order;
mtype:completion what;

inline step_ends() {
    i = 0; k = 0; m = 0; r = 0; count = 0; ok = 0; order = 0; what = 0
}

#define must(truth, name) \
    if :: (truth) :: else -> printf("broken: "); printf(name); printf("\n"); assert(false) fi

#define accepts(r, m) (want[r] == ANY || want[r] == tag[m])
#define overlap(a, b) (want[a] == ANY || want[b] == ANY || want[a] == want[b])

/* Gives message m to receive r. */
inline give(m, r) {
    must(at[m] != given && at[m] != probed, "a message is matched once (M1)");
    must(got[r] == 0, "a receive is matched once (M2)");
    for (i : 0 .. MESSAGES - 1) {
        must(i >= m || at[i] == given || at[i] == promised || at[i] == probed || !accepts(r, i),
             "a receive gets the earliest message (M4)")
    }
    for (i : 0 .. RECEIVES - 1) {
        must(i >= r || i >= posted || got[i] || (shadow[i] != waiting && shadow[i] != handed) ||
             !accepts(i, m), "a message goes to the earliest receive (M5)")
    }
    at[m] = given;
    got[r] = m + 1
}

/* ---- device ---- */

inline remove_entry(k) {
    armed = armed - (k < armed);
    entries--;
    for (i : 0 .. RECEIVES - 2) {
        if
        :: i >= k -> entry[i] = entry[i + 1]
        :: else
        fi
    }
    entry[entries] = 0
}

inline remove_held(k) {
    helds--;
    for (i : 0 .. MESSAGES - 2) {
        if
        :: i >= k -> held[i] = held[i + 1]
        :: else
        fi
    }
    held[helds] = 0
}

/* k: the index of the first held message that entry r accepts, or helds. */
inline find_held(r) {
    k = helds;
    for (i : 0 .. MESSAGES - 1) {
        if
        :: i < helds && accepts(r, held[i]) && (k == helds || YOUNGEST) -> k = i
        :: else
        fi
    }
}

/* Matches the held message m with r. */
inline meet_held(m, r) {
    must(pair[r] == m + 1, "a held message is matched with the receive that it is paired with (H1)");
    give(m, r);
    completions!held_match, m, r
}

inline arm() {
    do
    :: armed < entries ->
        r = entry[armed];
        find_held(r);
        if
        :: k < helds && !ARM_PAST ->
            m = held[k];
            remove_held(k);
            remove_entry(armed);
            meet_held(m, r)
        :: else -> armed++
        fi
    :: else -> break
    od
}

inline take_from_wire() {
    m = arrived;
    arrived++;
    k = 0;
    do
    :: k < armed && !accepts(entry[k], m) -> k++
    :: else -> break
    od;
    if
    :: k < armed ->
        r = entry[k];
        remove_entry(k);
        must(pair[r] == 0, "no other message meets a receive that is paired (H3)");
        give(m, r);
        completions!match, m, r
    :: else ->
        at[m] = passed;
        found++;
        completions!unexpected, m, 0
    fi
}

inline carry_out_hold(m) {
    k = 0;
    do
    :: k < armed && !accepts(entry[k], m) -> k++
    :: else -> break
    od;
    if
    :: k < armed -> r = entry[k]; remove_entry(k); meet_held(m, r)
    :: else -> held[helds] = m; helds++
    fi
}

inline carry_out_unhold(m) {
    k = 0;
    do
    :: k < helds && held[k] != m -> k++
    :: else -> break
    od;
    ok = (k < helds);
    if
    :: ok -> remove_held(k)
    :: else
    fi;
    completions!unhold_done, ok, m
}

inline carry_out_del(r) {
    k = 0;
    do
    :: k < entries && entry[k] != r -> k++
    :: else -> break
    od;
    ok = (k < entries);
    if
    :: ok -> remove_entry(k)
    :: else
    fi
}

inline carry_out_command() {
    commands?order, m, count;
    reported = count;
    if
    :: order == add -> entry[entries] = m; entries++
    :: order == drop -> carry_out_del(m)
    :: order == revoke -> carry_out_del(m); completions!revoke_done, ok, m
    :: order == hold -> carry_out_hold(m)
    :: order == unhold -> carry_out_unhold(m)
    :: order == sync
    fi;
    if
    :: found == reported -> arm()
    :: else
    fi
}

proctype Device() {
end:
    do
    :: atomic {
        !closed && arrived < MESSAGES ->
        if
        :: tag[arrived] = 0
        :: TAGS > 1 && arrived > 0 -> tag[arrived] = 1
        fi;
        d_step { take_from_wire(); step_ends() }
       }
    :: d_step { !closed && len(commands) > 0 -> carry_out_command(); step_ends() }
    :: d_step { OVERTAKE && !closed && len(commands) > 1 ->
        commands?order, r, count;
        commands!order, r, count;
        step_ends()
       }
    od
}

/* ---- software ---- */

inline command(order, what_of) {
    if
    :: !closed -> commands!order, what_of, handled; told = handled
    :: else
    fi
}

inline give_to_hold(m) {
    command(hold, m);
    is_held[m] = !closed
}

/* Message m, which is kept, stays in software from now on. */
inline take_back(m) {
    if
    :: is_held[m] && !NO_UNHOLD -> command(unhold, m)
    :: else
    fi;
    is_held[m] = 0
}

/* Compares m with the whole shadow list. */
inline compare(m) {
    k = 0;
    do
    :: k < posted && !((shadow[k] == waiting || shadow[k] == handed) && accepts(k, m)) -> k++
    :: else -> break
    od;
    if
    :: k < posted ->
        if
        :: shadow[k] == handed -> command(drop, k)
        :: else
        fi;
        r = k;
        give(m, r);
        shadow[r] = ended
    :: else -> at[m] = kept
    fi
}

/* holds: there is a free number for it. */
inline handle(m, holds) {
    if
    :: HOLD_FIRST -> give_to_hold(m); in_hand = m + 1
    :: else ->
        compare(m);
        if
        :: at[m] == kept && holds && !HOLD_LATE -> give_to_hold(m)
        :: else
        fi
    fi;
    handled++
}

inline poll(holds) {
    completions?what, m, r;
    if
    :: what == match -> shadow[r] = ended
    :: what == unexpected -> handle(m, holds)
    :: what == held_match ->
        must(shadow[r] == paired && pair[r] == m + 1,
             "a held message is matched with the receive that it is paired with (H1)");
        shadow[r] = ended
    :: what == unhold_done -> must(m, "UNHOLD succeeds (H2)")
    :: what == revoke_done ->
        if
        :: m -> shadow[r] = cancelled
        :: else -> must(shadow[r] == ended, "the match was polled before the failure (M7)")
        fi
    fi
}

/* stays: the device must not have this receive, or there is no space for it. */
inline post(stays) {
    k = 0;
    do
    :: k < MESSAGES && !(at[k] == kept && accepts(posted, k)) -> k++
    :: else -> break
    od;
    r = posted;
    posted++;
    m = k;
    if
    :: m == NONE -> shadow[r] = waiting
    :: m != NONE && (is_held[m] || PAIR_ANY) && !stays && !closed ->
        at[m] = promised;
        pair[r] = m + 1;
        shadow[r] = paired;
        command(add, r)
    :: else ->
        take_back(m);
        give(m, r);
        shadow[r] = ended
    fi
}

/* After each step.  A receive may be handed over if it overlaps no earlier one that is in software
 * only. */
inline look() {
    may_go = 0;
    are_kept = 0;
    are_late = 0;
    for (r : 0 .. RECEIVES - 1) {
        ok = (shadow[r] == waiting && !closed);
        for (i : 0 .. RECEIVES - 1) {
            ok = ok && (i >= r || shadow[i] != waiting || !overlap(i, r))
        }
        may_go = may_go | (ok << r)
    }
    for (m : 0 .. MESSAGES - 1) {
        ok = (at[m] == kept || (PROBE_PROMISED && at[m] == promised));
        are_kept = are_kept | (ok << m);
        ok = (at[m] == kept && !is_held[m] && !closed);
        are_late = are_late | (ok << m)
    }
    step_ends()
}

#define choose(bits) \
    do \
    :: (bits) & (1 << chosen) -> break \
    :: (bits) >> (chosen + 1) -> chosen++ \
    od

inline cancel(r) {
    cancels++;
    if
    :: shadow[r] == waiting -> shadow[r] = cancelled
    :: shadow[r] == handed && closed -> shadow[r] = (swept -> cancelled : handed)
    :: shadow[r] == handed && !closed -> command(revoke, r); shadow[r] = revoked
    :: else /* too late */
    fi
}

/* The device has stopped, and all its completions were polled. */
inline sweep() {
    swept = 1;
    for (r : 0 .. RECEIVES - 1) {
        if
        :: shadow[r] == handed -> shadow[r] = waiting
        :: shadow[r] == revoked -> shadow[r] = cancelled
        :: shadow[r] == paired ->
            m = pair[r] - 1;
            give(m, r);
            shadow[r] = ended
        :: else
        fi
    }
}

proctype Software() {
    byte chosen;
end:
    do
    :: atomic {
        posted < RECEIVES && !in_hand ->
        if
        :: want[posted] = 0
        :: TAGS > 1 -> want[posted] = 1
        :: TAGS > 1 -> want[posted] = ANY
        fi;
        if
        :: chosen = 0
        :: chosen = 1
        fi;
        d_step { post(chosen); chosen = 0; look() }
       }
    :: atomic {
        may_go && !in_hand ->
        choose(may_go);
        d_step { command(add, chosen); shadow[chosen] = handed; chosen = 0; look() }
       }
    :: atomic {
        len(completions) > 0 && !in_hand ->
        if
        :: chosen = 0
        :: chosen = 1
        fi;
        d_step { poll(chosen); chosen = 0; look() }
       }
    :: d_step { in_hand -> m = in_hand - 1; in_hand = 0; compare(m); look() }
    :: atomic {
        HOLD_LATE && are_late ->
        choose(are_late);
        d_step { give_to_hold(chosen); chosen = 0; look() }
       }
    :: atomic { /* a matched probe */
        probes < PROBES && are_kept && !in_hand ->
        choose(are_kept);
        d_step { probes++; take_back(chosen); at[chosen] = probed; chosen = 0; look() }
       }
    :: d_step { told != handled && !closed && !in_hand -> command(sync, 0); step_ends() }
    :: atomic {
        cancels < CANCELS && posted > 0 && !in_hand ->
        do
        :: chosen + 1 < posted -> chosen++
        :: break
        od;
        d_step { cancel(chosen); chosen = 0; look() }
       }
    :: d_step { LOSS && !closed -> closed = 1; look() }
    :: d_step { closed && !swept && !in_hand && (len(completions) == 0 || SWEEP_EARLY) ->
        sweep();
        look()
       }
    :: atomic { /* after the loss messages come to software */
        swept && arrived < MESSAGES ->
        if
        :: tag[arrived] = 0
        :: TAGS > 1 && arrived > 0 -> tag[arrived] = 1
        fi;
        d_step { m = arrived; arrived++; handle(m, 0); look() }
       }
    od
}

/* ---- the end of a run ---- */

init {
    atomic { run Software(); run Device() }
    timeout;
    d_step {
        must(arrived == MESSAGES && posted == RECEIVES && len(completions) == 0 &&
             (closed || len(commands) == 0), "nothing waits for ever (R1)");
        for (r : 0 .. RECEIVES - 1) {
            must(shadow[r] != paired && shadow[r] != revoked,
                 "nothing waits for ever (R1)");
            for (m : 0 .. MESSAGES - 1) {
                must(at[m] != kept || (shadow[r] != waiting && shadow[r] != handed) ||
                     !accepts(r, m), "no message waits while its receive waits (R2)")
            }
        }
        step_ends()
    }
}
