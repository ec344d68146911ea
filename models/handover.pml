/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handover.pml - which receive gets which message, if a device and software both match.
 *
 *   senders           device                          software              user
 *
 *   message --------> entry armed and fits: matched   shadow list  <------- post
 *                     else: untagged buffer,          unexpected   <------- cancel
 *                           found + 1                 messages
 *
 *                     list of entries  <-- commands --  hand over, take back, report
 *                     its actions      -- completions -> polled, handled + 1
 *
 *   message ----------- by shared memory, past the device ------->
 *
 * The device owns the head of the posted receive queue.  Software owns the tail, and its
 * shadow list has every receive.  A message for which the device finds no armed entry goes
 * to software, which compares it with the whole shadow list.  While such a message is in
 * flight, software may post a receive that fits it and hand that over: then the message
 * and the entry have passed each other.
 *
 * The cure is a count.  The device counts the messages that it found unexpected (`found`),
 * software counts the messages that it has handled (`handled`) and reports this number with every
 * command.  A new entry is not armed: it matches nothing until a command carries the
 * device's own number.  At that moment nothing is in flight.
 *
 * Steps, each of them one atomic action here:
 *
 *   device    takes a message from the wire; carries out the oldest command
 *   software  posts a receive: searches the unexpected messages, or puts it on the shadow
 *             list; hands over any receive that is eligible; polls one completion;
 *             begins a cancel; takes a message from shared memory; takes back all receives of
 *             the device; reports its count (SYNC); gives the device up
 *
 * Properties (`must` names the one that is violated):
 *
 *   M1  a message is matched once                M2  a receive is matched once
 *   M3  a cancelled receive is not matched, and a matched one not cancelled
 *   M4  of the messages of one path that a receive accepts, it gets the earliest
 *   M5  of the receives that accept a message, the earliest gets it
 *   M6  a receive that was passed over, because its cancel or take-back had begun,
 *       is not matched by the device after all
 *   M7  a take-back fails only after the completion of the match has been polled
 *   M8  the device never has more entries than its list has places
 *   M9  polling never waits for command space
 *
 * and when nothing moves any more:
 *
 *   R1  every message has arrived, every receive is posted, every queue is empty
 *   R2  no unexpected message waits together with a receive that accepts it
 *   R3  software knows every match
 *   R4  the counts agree, and the device's entries are armed, so they can match again
 *
 * Omitted here, and modelled in delivery.pml: data, rendezvous, handles.  Armed entries are
 * always a prefix of the list, because arming takes all of it, so one number identifies them.
 * The command ADD has no completion, because nothing depends on it.
 *
 * Every option below is a number, and most are 0 or 1.  models/variants sets them.
 */

/* Sizes. */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#ifndef LIST /* places in the device's list */
#define LIST 2
#endif
#ifndef TAGS /* 2: tags A and B; 1: only A */
#define TAGS 2
#endif
#ifndef CAPACITY /* capacity of the command queue */
#define CAPACITY (LIST + 2)
#endif
#ifndef QUEUE /* capacity of the completion queue */
#define QUEUE (MESSAGES + 2 * LIST)
#endif
#ifndef MODULUS /* of the count; 65536 in reality */
#define MODULUS 8
#endif

/* Optional parts. */
#ifndef CANCELS /* number of receives that the user may cancel */
#define CANCELS 0
#endif
#ifndef PATHS /* 2: messages also arrive by shared memory; 3: from two senders */
#define PATHS 1
#endif
#ifndef FETCHES /* how often software takes everything back, to keep it for some time */
#define FETCHES 0
#endif
#ifndef LOSS /* software may give the device up at any time */
#define LOSS 0
#endif
#ifndef SYNCS /* software reports its count even without another command */
#define SYNCS 1
#endif
#ifndef WINDOW /* unreported messages: 0 any number, 1 fewer than MODULUS since the last */
#define WINDOW 0 /* report that was posted, 2 since the last that was carried out */
#endif
#ifndef COUNT_FIRST /* the count is raised, then the message handled, in one step */
#define COUNT_FIRST 0
#endif

/* Mistakes. */
#ifndef ARM_AT_ONCE /* a new entry is armed whatever the counts say */
#define ARM_AT_ONCE 0
#endif
#ifndef COUNT_EARLY /* a message is counted in one step and handled in a later one */
#define COUNT_EARLY 0
#endif
#ifndef FORGET_DEL /* the entry of a receive that software matches stays in the list */
#define FORGET_DEL 0
#endif
#ifndef OVERTAKE /* commands may be carried out in any order */
#define OVERTAKE 0
#endif
#ifndef PAST_OVERLAP /* a receive is handed over past an earlier one that overlaps it */
#define PAST_OVERLAP 0
#endif
#ifndef CANCEL_AT_ONCE /* the user's cancel does not wait for the device's answer */
#define CANCEL_AT_ONCE 0
#endif
#ifndef TRUST_DEL /* a failed take-back is taken for a success */
#define TRUST_DEL 0
#endif
#ifndef TWO_QUEUES /* unexpected messages have a separate completion queue */
#define TWO_QUEUES 0
#endif
#ifndef GAP /* the search of the unexpected messages and the posting are two steps */
#define GAP 0
#endif
#ifndef POLL_WAITS /* commands take all the space, and polling waits for space */
#define POLL_WAITS 0
#endif
#ifndef TAKE_AT_ONCE /* a message of shared memory takes a receive without asking the device */
#define TAKE_AT_ONCE 0
#endif
#ifndef PASS_CANCEL /* a message of shared memory passes a receive whose cancel has begun */
#define PASS_CANCEL 0
#endif
#ifndef PASS_RECLAIMED /* ... or whose take-back for a message of another sender has begun */
#define PASS_RECLAIMED 0
#endif
#ifndef OLDEST_FIRST /* receives are taken back in the order of posting */
#define OLDEST_FIRST 0
#endif
#ifndef PAST_LEAVING /* a receive is handed over past an overlapping one being taken back */
#define PAST_LEAVING 0
#endif
#ifndef SWEEP_EARLY /* receives are taken back from a lost device before the queue is empty */
#define SWEEP_EARLY 0
#endif
#ifndef UNPARK_EARLY /* a parked message continues before a lost device's queue is empty */
#define UNPARK_EARLY 0
#endif

/* For drawings: 0 disables M4 and M5, so that an error flow continues to its end. */
#ifndef ORDER
#define ORDER 1
#endif
#ifndef SHOW_CURE /* stops at the end of a run that would otherwise have been the error flow */
#define SHOW_CURE 0
#endif

#define ANY 2        /* any tag */
#define ANY_PATH 3
#define NETWORK 0    /* the device's path; others: shared memory, one per sender */
#define SHARED 2     /* maximum number of senders by shared memory */
#define NONE RECEIVES

/* ---- state ----------------------------------------------------------------------- */

/* A message: not sent yet; between the two contexts; unexpected; matched. */
mtype:message = { coming, passed, kept, given };

/* A receive on the shadow list: in software only; handed over; a cancel has begun; a take-back has
 * begun, for a message of the other path, or of all receives. */
mtype:receive = { unposted, waiting, handed, revoked, reclaimed, leaving, ended, cancelled };

mtype:command = { add, drop, revoke, reclaim, fetch, sync }; /* all between add and sync are DEL */
mtype:completion = { match, unexpected, revoke_done, reclaim_done, fetch_done };

/* messages, in order of arrival */
byte arrived;
mtype:message at[MESSAGES] = coming;
bit tag[MESSAGES];
byte path[MESSAGES];

/* software: the shadow list, in order of posting */
byte posted;
mtype:receive shadow[RECEIVES] = unposted;
byte want[RECEIVES];      /* tag, or ANY */
byte want_path[RECEIVES]; /* path, or ANY_PATH */
byte handled;             /* unexpected messages of the device */
byte told;                /* the last count reported */
byte parked[SHARED];      /* a message of each sender that waits for an answer, + 1 */
byte parked_on[SHARED];   /* the receive that the answer concerns */
bit asks[SHARED];         /* that receive will get the message */
byte in_hand;             /* COUNT_EARLY: a message that is counted and not handled, + 1 */
bit searched;             /* GAP: the search is complete, the posting is not */
byte cancels, fetches;
bit closed, swept;        /* LOSS: given up; its receives are taken back */
byte in_use;              /* occupied list places, or places that may be */
byte may_go;              /* set of receives that may be handed over */

/* device */
byte entry[LIST], entries, armed; /* the first `armed` of `entries` */
byte found, reported;
byte takes; /* set of tags that an armed entry accepts */

chan commands = [CAPACITY] of { mtype:command, byte, byte };           /* receive, count */
chan completions[2] = [QUEUE] of { mtype:completion, byte, byte }; /* message or ok, receive */

/* the true state, not known to any process */
byte got[RECEIVES];    /* message + 1 */
bit skipped[RECEIVES]; /* passed over */
bit spared;            /* SHOW_CURE: an entry fitted a message, and was not armed */

/* Used within one step only: 0 between steps, so that they make no states. */
byte i, k, m, r, s, count;
bit ok;
mtype:command order;
mtype:completion what;

inline step_ends() {
    i = 0; k = 0; m = 0; r = 0; s = 0; count = 0; ok = 0;
    order = 0;
    what = 0
}

/* ---- rules ----------------------------------------------------------------------- */

#define must(truth, name) \
    if :: (truth) :: else -> printf("broken: "); printf(name); printf("\n"); assert(false) fi

#define accepts(r, m) \
    ((want[r] == ANY || want[r] == tag[m]) && (want_path[r] == ANY_PATH || want_path[r] == path[m]))

#define overlap(a, b) \
    ((want[a] == ANY || want[b] == ANY || want[a] == want[b]) && \
     (want_path[a] == ANY_PATH || want_path[b] == ANY_PATH || want_path[a] == want_path[b]))

#define in_sync ((found - reported) % MODULUS == 0)

/* Is there an untagged buffer?  If not, only a message that matches is taken. */
#define may_be_unexpected \
    (WINDOW == 0 || (WINDOW == 1 && found < told + MODULUS - 1) || \
     (WINDOW == 2 && found < reported + MODULUS - 1))

/* Gives message m to receive r, and checks all MPI rules for a match. */
inline give(m, r) {
    must(at[m] != given, "a message is matched once (M1)");
    must(got[r] == 0, "a receive is matched once (M2)");
    must(shadow[r] != cancelled, "a cancelled receive is not matched (M3)");
    for (i : 0 .. MESSAGES - 1) {
        must(!ORDER || i >= m || at[i] == given || path[i] != path[m] || !accepts(r, i),
             "a receive gets the earliest message (M4)")
    }
    for (i : 0 .. RECEIVES - 1) {
        if
        :: i < r && i < posted && got[i] == 0 && accepts(i, m) ->
            must(!ORDER || (shadow[i] != waiting && shadow[i] != handed),
                 "a message goes to the earliest receive (M5)");
            must(!ORDER || shadow[i] != leaving, "a message goes to the earliest receive (M5)");
            skipped[i] = (shadow[i] == revoked || shadow[i] == reclaimed)
        :: else
        fi
    }
    at[m] = given;
    got[r] = m + 1
}

inline print_order(order) {
    if
    :: order == add -> printf("add ")
    :: order == drop -> printf("drop ")
    :: order == revoke -> printf("revoke ")
    :: order == reclaim -> printf("reclaim ")
    :: order == fetch -> printf("fetch ")
    :: order == sync -> printf("sync ")
    fi
}

/* ---- device ---------------------------------------------------------------------- */

/* k: the first armed entry that fits message m, or `entries`. */
inline find_entry(m) {
    k = 0;
    do
    :: k < armed && !accepts(entry[k], m) -> k++
    :: k >= armed -> k = entries; break
    :: else -> break
    od
}

inline remove_entry(k) {
    armed = armed - (k < armed);
    entries--;
    for (i : 0 .. LIST - 2) {
        if
        :: i >= k -> entry[i] = entry[i + 1]
        :: else
        fi
    }
    entry[entries] = 0
}

/* Takes the message with the number `arrived`; its tag is chosen. */
inline take_from_wire() {
    m = arrived;
    arrived++;
    printf("@ send %d %d\n", m, tag[m]);
    find_entry(m);
    if
    :: k < entries ->
        r = entry[k];
        printf("@ device_match %d %d\n", m, r);
        remove_entry(k);
        must(!skipped[r], "a receive that was passed over is not matched (M6)");
        give(m, r);
        completions[0]!match, m, r
    :: else ->
        at[m] = passed;
        found++;
        spared = (spared || (SHOW_CURE && !handled && armed < entries && accepts(entry[armed], m)));
        printf("@ device_unexpected %d %d\n", m, found);
        completions[TWO_QUEUES]!unexpected, m, 0
    fi
}

/* ok: there was an entry for receive r. */
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
    commands?order, r, count;
    reported = count;
    ok = 1;
    if
    :: order == add ->
        must(entries < LIST, "the list has a place for every entry (M8)");
        entry[entries] = r;
        entries++
    :: order == sync
    :: else -> carry_out_del(r)
    fi;
    if
    :: in_sync || ARM_AT_ONCE -> armed = entries
    :: else
    fi;
    printf("@ device ");
    print_order(order);
    printf("%d %d %d %d %d %d\n", r, ok, found, reported, entries, armed);
    if
    :: order == revoke -> completions[0]!revoke_done, ok, r
    :: order == reclaim -> completions[0]!reclaim_done, ok, r
    :: order == fetch -> completions[0]!fetch_done, ok, r
    :: else
    fi
}

/* After each step of the device. */
inline look_for_armed() {
    takes = 0;
    for (k : 0 .. LIST - 1) {
        if
        :: k < armed -> takes = takes | (want[entry[k]] == ANY -> 3 : 1 << want[entry[k]])
        :: else
        fi
    }
    step_ends()
}

#define may_complete (len(completions[0]) < QUEUE && len(completions[1]) < QUEUE)

proctype Device() {
end:
    do
    :: atomic {
        !closed && arrived < MESSAGES && may_complete && (may_be_unexpected || takes) ->
        if
        :: (may_be_unexpected || takes & 1) -> tag[arrived] = 0
        :: (may_be_unexpected || takes & 2) && TAGS > 1 && arrived > 0 -> tag[arrived] = 1
        fi; /* the first message may have tag A without loss of generality */
        d_step { take_from_wire(); look_for_armed() }
       }
    :: d_step { !closed && len(commands) > 0 && may_complete ->
        carry_out_command();
        look_for_armed()
       }
    :: d_step {
        OVERTAKE && len(commands) > 1 -> /* the oldest command becomes the youngest */
        commands?order, r, count;
        commands!order, r, count;
        step_ends()
       }
    od
}

/* ---- software -------------------------------------------------------------------- */

/* After each step.  A receive may be handed over if it overlaps no earlier receive that is in
 * software only, and if the device's path can match it at all. */
inline look_for_space() {
    in_use = 0;
    may_go = 0;
    for (r : 0 .. RECEIVES - 1) {
        in_use = in_use + (shadow[r] == handed || shadow[r] == revoked ||
                           shadow[r] == reclaimed || shadow[r] == leaving);
        ok = (shadow[r] == waiting && !closed &&
              (want_path[r] == NETWORK || want_path[r] == ANY_PATH));
        for (i : 0 .. RECEIVES - 1) {
            ok = ok && (PAST_OVERLAP || i >= r || !overlap(i, r) ||
                        (shadow[i] != waiting && (shadow[i] != leaving || PAST_LEAVING)))
        }
        may_go = may_go | (ok << r)
    }
    step_ends()
}

/* Each occupied place may still need a DEL, and polling must find space for it: so other commands
 * leave that much space. */
#define space_for(n) \
    (POLL_WAITS -> len(commands) < CAPACITY : len(commands) + in_use + (n) <= CAPACITY)
#define open_or_swept (!closed || swept)
#define may_poll (!POLL_WAITS || len(commands) < CAPACITY)

inline command(order, r) {
    must(len(commands) < CAPACITY, "there is space for a command that may not wait (M9)");
    commands!order, r, handled;
    told = handled;
    printf("@ software ");
    print_order(order);
    printf("%d %d\n", r, handled)
}

/* k: the first receive on the shadow list that message m may match, or NONE.  An active take-back
 * succeeds if m is an unexpected message of the device: until m is counted the entry cannot be
 * armed.  For a message of another path this is unknown, whatever the reason of the take-back. */
inline find_receive(m) {
    k = 0;
    do
    :: k == posted -> k = NONE; break
    :: k < posted && accepts(k, m) &&
       (shadow[k] == waiting || shadow[k] == handed || shadow[k] == leaving ||
        (shadow[k] == revoked && path[m] != NETWORK && !PASS_CANCEL) ||
        (shadow[k] == reclaimed && path[m] != NETWORK && !PASS_RECLAIMED)) -> break
    :: else -> k++
    od
}

inline park(m, r, asking) {
    printf("@ park %d %d\n", m, r);
    parked[path[m] - 1] = m + 1;
    parked_on[path[m] - 1] = r;
    asks[path[m] - 1] = asking
}

inline software_gives(m, r) {
    printf("@ software_match %d %d\n", m, r);
    give(m, r);
    shadow[r] = ended
}

/* Compares a message that came to software with the whole shadow list. */
inline handle(m) {
    find_receive(m);
    if
    :: k == NONE ->
        printf("@ keep %d\n", m);
        at[m] = kept
    :: k != NONE && shadow[k] == handed && path[m] != NETWORK && !TAKE_AT_ONCE && !closed ->
        command(reclaim, k);
        shadow[k] = reclaimed;
        park(m, k, 1)
    :: k != NONE && shadow[k] == leaving && path[m] != NETWORK && !closed ->
        shadow[k] = reclaimed; /* the take-back is already requested */
        park(m, k, 1)
    :: k != NONE && (shadow[k] == revoked || shadow[k] == reclaimed) -> park(m, k, 0)
    :: else ->
        if
        :: shadow[k] == handed && !closed && !FORGET_DEL -> command(drop, k)
        :: else
        fi;
        software_gives(m, k)
    fi
}

inline handle_unexpected(m) {
    printf("@ poll_unexpected %d\n", m);
    handled = handled + (COUNT_EARLY || COUNT_FIRST);
    if
    :: COUNT_EARLY -> in_hand = m + 1
    :: else -> handle(m)
    fi;
    handled = handled + !(COUNT_EARLY || COUNT_FIRST)
}

inline answer_to_cancel(r) {
    printf("@ poll_revoke %d %d\n", r, ok);
    if
    :: ok || TRUST_DEL ->
        must(got[r] == 0, "a matched receive is not cancelled (M3)");
        shadow[r] = cancelled
    :: else ->
        must(shadow[r] == ended, "the match was polled before the failure (M7)")
    fi
}

/* m: the parked message of sender s. */
inline unpark(s) {
    m = parked[s] - 1;
    parked[s] = 0;
    parked_on[s] = 0;
    asks[s] = 0
}

/* The receive was taken back for the message that waits for it; or it has matched another one. */
inline answer_to_reclaim(r) {
    printf("@ poll_reclaim %d %d\n", r, ok);
    if
    :: ok ->
        s = (asks[0] && parked_on[0] == r -> 0 : 1);
        unpark(s);
        software_gives(m, r)
    :: else -> must(shadow[r] == ended, "the match was polled before the failure (M7)")
    fi
}

/* The receive was taken back; its state follows from later events. */
inline answer_to_fetch(r) {
    printf("@ poll_fetch %d %d\n", r, ok);
    if
    :: shadow[r] == reclaimed -> answer_to_reclaim(r)
    :: shadow[r] == revoked -> answer_to_cancel(r)
    :: shadow[r] == leaving ->
        must(ok, "the match was polled before the failure (M7)");
        shadow[r] = waiting
    :: else /* matched, by the device or by software */
    fi
}

inline poll(q) {
    completions[q]?what, m, r;
    ok = m;
    if
    :: what == match ->
        printf("@ poll_match %d %d\n", m, r);
        shadow[r] = ended
    :: what == unexpected -> handle_unexpected(m)
    :: what == revoke_done -> answer_to_cancel(r)
    :: what == reclaim_done -> answer_to_reclaim(r)
    :: what == fetch_done -> answer_to_fetch(r)
    fi;
    if
    :: (what == revoke_done || what == reclaim_done || what == fetch_done) && (open_or_swept || UNPARK_EARLY) ->
        for (s : 0 .. SHARED - 1) {
            if
            :: parked[s] && parked_on[s] == r -> unpark(s); handle(m)
            :: else
            fi
        }
    :: else /* later completions of a lost device may report matches of other receives */
    fi;
    look_for_space()
}

/* Posts receive `posted`; its envelope is chosen. */
inline search_unexpected() {
    printf("@ post %d %d\n", posted, want[posted]);
    k = 0;
    do
    :: k < MESSAGES && !(at[k] == kept && accepts(posted, k)) -> k++
    :: else -> break
    od;
    if
    :: k < MESSAGES ->
        software_gives(k, posted);
        posted++
    :: else -> searched = 1
    fi
}

inline enter_shadow_list() {
    shadow[posted] = waiting;
    posted++;
    searched = 0;
    look_for_space()
}

inline begin_cancel(r) {
    cancels++;
    printf("@ cancel %d\n", r);
    if
    :: shadow[r] == handed && !CANCEL_AT_ONCE ->
        command(revoke, r);
        shadow[r] = revoked
    :: shadow[r] == handed && CANCEL_AT_ONCE ->
        command(drop, r);
        shadow[r] = cancelled
    :: shadow[r] == leaving -> shadow[r] = revoked /* the take-back is already requested */
    :: shadow[r] == waiting -> shadow[r] = cancelled
    :: else /* too late, or already requested */
    fi;
    look_for_space()
}

inline take_back(r) {
    if
    :: shadow[r] == handed ->
        command(fetch, r);
        shadow[r] = leaving
    :: else
    fi
}

/* Software takes everything back, for a reason of its own.  The youngest leaves first: so, for
 * every message, the receives that remain in the device are the first that fit it. */
inline fetch_all() {
    fetches++;
    printf("@ fetch_all\n");
    for (s : 1 .. RECEIVES) {
        k = (OLDEST_FIRST -> s - 1 : RECEIVES - s);
        take_back(k)
    }
    look_for_space()
}

/* The device is closed and the queue is empty: software takes the unmatched receives back. */
inline sweep() {
    printf("@ sweep\n");
    swept = 1;
    for (r : 0 .. RECEIVES - 1) {
        if
        :: shadow[r] == handed || shadow[r] == reclaimed || shadow[r] == leaving ->
            shadow[r] = waiting
        :: shadow[r] == revoked -> shadow[r] = cancelled
        :: else
        fi
    }
    for (s : 0 .. SHARED - 1) {
        if
        :: parked[s] -> unpark(s); handle(m)
        :: else
        fi
    }
    look_for_space()
}

#define queues_empty (len(completions[0]) + len(completions[1]) == 0)

proctype Software() {
    byte chosen;
end:
    do
    :: atomic {
        posted < RECEIVES && !searched ->
        if
        :: want[posted] = 0
        :: TAGS > 1 -> want[posted] = 1
        :: TAGS > 1 -> want[posted] = ANY
        fi;
        if
        :: want_path[posted] = NETWORK
        :: PATHS > 1 -> want_path[posted] = 1
        :: PATHS > 2 -> want_path[posted] = 2
        :: PATHS > 1 -> want_path[posted] = ANY_PATH
        fi;
        d_step {
            search_unexpected();
            if
            :: searched && !GAP -> enter_shadow_list()
            :: else
            fi;
            step_ends()
        }
       }
    :: d_step { GAP && searched -> printf("@ enter %d\n", posted); enter_shadow_list() }
    :: atomic {
        may_go && in_use < LIST && space_for(2) ->
        do
        :: may_go & (1 << chosen) -> break
        :: may_go >> (chosen + 1) -> chosen++
        od;
        d_step {
            command(add, chosen);
            shadow[chosen] = handed;
            chosen = 0;
            look_for_space()
        }
       }
    :: atomic {
        !queues_empty && !in_hand && may_poll ->
        if
        :: len(completions[0]) > 0
        :: len(completions[1]) > 0 -> chosen = 1
        fi;
        d_step { poll(chosen); chosen = 0 }
       }
    :: d_step { COUNT_EARLY && in_hand && may_poll ->
        m = in_hand - 1;
        in_hand = 0;
        handle(m);
        look_for_space()
       }
    :: d_step { SYNCS && told != handled && !closed && space_for(1) ->
        command(sync, 0);
        step_ends()
       }
    :: atomic {
        cancels < CANCELS && posted > 0 && open_or_swept && may_poll ->
        do
        :: chosen + 1 < posted -> chosen++
        :: break
        od;
        d_step { begin_cancel(chosen); chosen = 0 }
       }
    :: atomic { /* a message by shared memory or, after a loss, by the network */
        (swept || (PATHS > 1 && !parked[0]) || (PATHS > 2 && !parked[1])) &&
        arrived < MESSAGES && open_or_swept && may_poll ->
        if
        :: PATHS > 1 && !parked[0] -> path[arrived] = 1
        :: PATHS > 2 && !parked[1] -> path[arrived] = 2
        :: swept
        fi;
        if
        :: tag[arrived] = 0
        :: TAGS > 1 && arrived > 0 -> tag[arrived] = 1
        fi;
        d_step {
            m = arrived;
            arrived++;
            printf("@ shared %d %d\n", m, tag[m]);
            handle(m);
            look_for_space()
        }
       }
    :: d_step { fetches < FETCHES && !closed && in_use > 0 && may_poll -> fetch_all() }
    :: d_step { LOSS && !closed -> printf("@ close\n"); closed = 1; look_for_space() }
    :: d_step { closed && !swept && (queues_empty || SWEEP_EARLY) -> sweep() }
    od
}

/* ---- the end of a run ------------------------------------------------------------ */

#define quiet (arrived == MESSAGES && posted == RECEIVES && queues_empty && \
               (closed || len(commands) == 0) && !parked[0] && !parked[1] && !in_hand)

init {
    atomic { run Software(); run Device() }
    timeout;
    d_step {
        must(quiet, "nothing waits for ever (R1)");
        for (m : 0 .. MESSAGES - 1) {
            for (r : 0 .. RECEIVES - 1) {
                must(at[m] != kept || (shadow[r] != waiting && shadow[r] != handed) ||
                     !accepts(r, m), "no message waits while its receive waits (R2)")
            }
        }
        for (r : 0 .. RECEIVES - 1) {
            must((got[r] != 0) == (shadow[r] == ended), "software knows every match (R3)")
        }
        must(!SYNCS || closed || (in_sync && armed == entries),
             "the device is armed again (R4)");
        must(!spared, "no rule; the run is over (END)");
        step_ends()
    }
}
