/* SPDX-License-Identifier: BSD-3-Clause */
/* reach_source.pml - the sending side of reach_through.pml. */

inline begin_write(s) {
    if
    :: DATA ->
        printf("@ write %d %d\n", s, aim[s] - 1);
        at[s] = flying;
        in_flight = with(in_flight, s)
    :: else -> land(s)
    fi
}

/* x: the first send of source i that is held, or claimed, and accepted by receive r; or NONE. */
inline find_first(i, r) {
    x = NONE;
    for (k : FIRST(i) .. LAST(i)) {
        if
        :: (at[k] == held || (at[k] == claimed && !CLAIMED_ABSENT)) && accepts(r, k) ->
            x = (x == NONE || before(k, x) || (ANY_SEND && at[k] == held) -> k : x)
        :: else
        fi
    }
}

/* n: the receives that source i has claimed, one bit for each. */
inline find_claims(i) {
    n = 0;
    for (k : FIRST(i) .. LAST(i)) {
        n = (at[k] == claimed -> with(n, aim[k] - 1) : n)
    }
}

/* Is x, for receive r of source i, the send that has r as its first receive?  Into ok. */
inline is_mutual(i, r) {
    ok = (x != NONE);
    if
    :: ok ->
        ok = (at[x] == held);
        for (k : 0 .. RECEIVES - 1) {
            ok = ok && (k >= r || ANY_RTR || !bit_of(told[i], k) || !accepts(k, x) ||
                        (CLAIMED_ABSENT && bit_of(n, k)))
        }
    :: else
    fi
}

/* After each step of source i: what it may do next. */
inline look_around(i) {
    head[i] = NONE;
    pair_s[i] = NONE;
    pair_r[i] = NONE;
    ready[i] = 0;
    for (k : FIRST(i) .. LAST(i)) {
        ready[i] = (at[k] == writing -> with(ready[i], k) : ready[i]);
        if
        :: at[k] == held && (head[i] == NONE || before(k, head[i]) || PAST_HELD) -> head[i] = k
        :: else
        fi
    }
    find_claims(i);
    out[i] = (n != 0);
    for (r : 0 .. RECEIVES - 1) {
        if
        :: bit_of(told[i], r) && !bit_of(n, r) && (pair_r[i] == NONE || ANY_RTR) ->
            find_first(i, r);
            is_mutual(i, r);
            pair_r[i] = (ok -> r : pair_r[i]);
            pair_s[i] = (ok -> x : pair_s[i])
        :: else
        fi
    }
    step_ends()
}

inline post_send(i) {
    s = FIRST(i) + sent[i];
    sent[i]++;
    printf("@ send %d %d\n", s, tag[s]);
    at[s] = (learnt[i] -> undone : held);
    look_around(i)
}

/* The first deferred send goes, and with it its payload, if there is a credit. */
inline emit(i) {
    s = head[i];
    ok = (pool[i] > 0);
    pool[i] = pool[i] - ok;
    ok = ok || PAYLOAD_FREE;
    credits[i]--;
    at[s] = (ok -> over : away);
    printf("@ emit %d %d\n", s, ok);
    send_up(i, env, s, ok);
    holding[i] = 0;
    told[i] = (KEEP_RTRS || NO_EPOCH -> told[i] : 0);
    look_around(i)
}

inline begin_hold(i) {
    holding[i] = 1;
    epoch[i]++;
    printf("@ hold %d %d\n", i, epoch[i]);
    send_up(i, hold, epoch[i], 0);
    look_around(i)
}

inline make_claim(i) {
    s = pair_s[i];
    r = pair_r[i];
    printf("@ claim %d %d\n", s, r);
    at[s] = claimed;
    aim[s] = r + 1;
    if
    :: APART -> apart[i]!r, s
    :: else -> send_up(i, claim, r, s)
    fi;
    look_around(i)
}

/* s: the send of source i that claims receive r, or NONE. */
inline find_claim_of(i, r) {
    s = NONE;
    for (k : FIRST(i) .. LAST(i)) {
        s = (at[k] == claimed && aim[k] == r + 1 -> k : s)
    }
}

inline take_rtr(i, r, e) {
    ok = NO_EPOCH || (holding[i] && e == epoch[i]);
    if
    :: ok && FORGET_RTR ->
        find_first(i, r);
        ok = (x != NONE)
    :: else
    fi;
    told[i] = (ok -> with(told[i], r) : told[i])
}

inline take_retire(i, r) {
    told[i] = without(told[i], r);
    find_claim_of(i, r);
    if
    :: s != NONE ->
        printf("@ lost_claim %d %d\n", s, r);
        at[s] = held;
        aim[s] = 0;
        behind[s] = LOSER_LAST
    :: else
    fi
}

/* ok: the receive has a buffer. */
inline take_grant(i, r, ok) {
    told[i] = without(told[i], r);
    find_claim_of(i, r);
    must(s != NONE, "a grant finds its claim (E1)");
    at[s] = (ok || PROBE_WRITES -> writing : away);
    if
    :: at[s] == writing && !DATA -> begin_write(s)
    :: else
    fi
}

inline take_fetch(i, s, r) {
    aim[s] = r + 1;
    at[s] = writing;
    if
    :: !DATA -> begin_write(s)
    :: else
    fi
}

/* The first send that the probe would receive; none while a claim on it is not answered.
 * Whether an open receive comes before the probe is for the receiver to see. */
inline take_peek(i, t, e) {
    x = NONE;
    for (k : FIRST(i) .. LAST(i)) {
        if
        :: x == NONE && (at[k] == held || (at[k] == claimed && !PEEK_CLAIMED)) &&
           accepts_tag(t, k) -> x = k
        :: else
        fi
    }
    if
    :: x != NONE -> ok = (at[x] == held && ((holding[i] && e == epoch[i]) || PEEK_EPOCH))
    :: else
    fi;
    printf("@ answer %d %d %d\n", i, ok, x);
    x = (ok -> x + 1 : 0);
    send_up(i, answer, x, 0)
}

inline read_down(i) {
    down[i]?told_so, m, y;
    if
    :: told_so == rtr -> printf("@ got_rtr %d %d %d\n", i, m, y); take_rtr(i, m, y)
    :: told_so == retire -> printf("@ got_retire %d %d\n", i, m); take_retire(i, m)
    :: told_so == grant -> printf("@ got_grant %d %d\n", i, m); q = m; take_grant(i, q, y)
    :: told_so == credit ->
        printf("@ got_credit %d %d %d\n", i, m, y);
        credits[i] = credits[i] + m;
        pool[i] = pool[i] + y
    :: told_so == fetch -> printf("@ got_fetch %d %d\n", m, y); q = m; take_fetch(i, q, y)
    :: told_so == peek -> take_peek(i, m, y)
    fi;
    look_around(i)
}

/* The receiver is dead: every send that needs it fails. */
inline learn_of_death(i) {
    printf("@ learn %d 2\n", i);
    learnt[i] = 1;
    told[i] = 0;
    for (k : FIRST(i) .. LAST(i)) {
        if
        :: at[k] == held || (at[k] == claimed && !CLAIM_OUTLIVES) || at[k] == away ||
           at[k] == writing || at[k] == flying -> at[k] = undone
        :: else
        fi;
        in_flight = without(in_flight, k)
    }
    do
    :: len(down[i]) > 0 -> down[i]?told_so, m, y
    :: else -> break
    od;
    look_around(i)
}

/* May source i emit, if it holds a send? */
#define may_emit(i) \
    (!learnt[i] && head[i] != NONE && credits[i] > 0 && (!PAYLOAD_WAITS || pool[i] > 0) && \
     (holding[i] -> (credits[i] >= LEAVE && (EMIT_IN_CLAIM || !out[i])) : 1))
/* May it do something by itself? */
#define may_act(i) \
    (!dead[i] && !learnt[i] && \
     (may_emit(i) || (!holding[i] && head[i] != NONE && credits[i] == 0) || \
      (holding[i] && pair_r[i] != NONE)))
#define calm (!AT_ONCE || (!may_act(0) && !may_act(1)))

proctype Source(byte i) {
    byte chosen;
end:
    do
    :: atomic {
        !dead[i] && calm && sent[i] < LAST(i) + 1 - FIRST(i) ->
        if
        :: tag[FIRST(i) + sent[i]] = 0
        :: TAGS > 1 && sent[i] + i > 0 -> tag[FIRST(i) + sent[i]] = 1
        fi; /* that the first send of A has tag A loses nothing */
        d_step { post_send(i) }
       }
    :: d_step { !dead[i] && may_emit(i) -> emit(i) }
    :: d_step { !dead[i] && !learnt[i] && !holding[i] && head[i] != NONE && credits[i] == 0 ->
        begin_hold(i)
       }
    :: d_step { !dead[i] && !learnt[i] && holding[i] && pair_r[i] != NONE -> make_claim(i) }
    :: d_step { !dead[i] && !learnt[i] && calm && nempty(down[i]) -> read_down(i) }
    :: atomic {
        DATA && !dead[i] && ready[i] ->
        do
        :: bit_of(ready[i], chosen) -> break
        :: ready[i] >> (chosen + 1) -> chosen++
        od;
        d_step { begin_write(chosen); chosen = 0; look_around(i) }
       }
    :: d_step { MORTAL == 1 && !deaths && !dead[i] ->
        printf("@ die %d\n", i);
        deaths = 1;
        dead[i] = 1;
        step_ends()
       }
    :: d_step { dead[2] && !dead[i] && !learnt[i] -> learn_of_death(i) }
    od
}
