/* SPDX-License-Identifier: BSD-3-Clause */
/* defer_source.pml - the sending side of defer.pml. */

inline begin_write(s) {
    if
    :: DATA ->
        printf("@ write %d %d\n", s, target[s] - 1);
        send_state[s] = being_written;
        in_flight = with(in_flight, s)
    :: else -> land(s)
    fi
}

/* x: the first send of source i that is deferred or claimed, and that receive r accepts; or
 * NONE. */
inline find_first(i, r) {
    x = NONE;
    for (k : FIRST(i) .. LAST(i)) {
        if
        :: (send_state[k] == deferred || (send_state[k] == claimed && !CLAIMED_ABSENT)) && accepts(r, k) ->
            x = (x == NONE || before(k, x) || (ANY_SEND && send_state[k] == deferred) -> k : x)
        :: else
        fi
    }
}

/* n: the set of receives that source i has claimed. */
inline find_claims(i) {
    n = 0;
    for (k : FIRST(i) .. LAST(i)) {
        n = (send_state[k] == claimed -> with(n, target[k] - 1) : n)
    }
}

/* ok: x, a send for receive r of source i, has r as its first receive. */
inline is_mutual(i, r) {
    ok = (x != NONE);
    if
    :: ok ->
        ok = (send_state[x] == deferred);
        for (k : 0 .. RECEIVES - 1) {
            ok = ok && (k >= r || ANY_RTR || !bit_of(advertised[i], k) || !accepts(k, x) ||
                        (CLAIMED_ABSENT && bit_of(n, k)))
        }
    :: else
    fi
}

/* After each step of source i: computes its next possible steps. */
inline update_choices(i) {
    first_deferred[i] = NONE;
    pair_s[i] = NONE;
    pair_r[i] = NONE;
    ready[i] = 0;
    for (k : FIRST(i) .. LAST(i)) {
        ready[i] = (send_state[k] == may_write -> with(ready[i], k) : ready[i]);
        if
        :: send_state[k] == deferred &&
           (first_deferred[i] == NONE || before(k, first_deferred[i]) || PAST_DEFERRED) ->
            first_deferred[i] = k
        :: else
        fi
    }
    find_claims(i);
    has_claim[i] = (n != 0);
    for (r : 0 .. RECEIVES - 1) {
        if
        :: bit_of(advertised[i], r) && !bit_of(n, r) && (pair_r[i] == NONE || ANY_RTR) ->
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
    send_state[s] = (knows_death[i] -> given_up : deferred);
    update_choices(i)
}

/* Emits the first deferred send, with its payload if there is a credit. */
inline emit(i) {
    s = first_deferred[i];
    ok = (pool[i] > 0);
    pool[i] = pool[i] - ok;
    ok = ok || PAYLOAD_FREE;
    credits[i]--;
    send_state[s] = (ok -> done : emitted);
    printf("@ emit %d %d\n", s, ok);
    send_up(i, env, s, ok);
    is_deferring[i] = 0;
    advertised[i] = (KEEP_RTRS || NO_EPOCH -> advertised[i] : 0);
    update_choices(i)
}

inline begin_deferring(i) {
    is_deferring[i] = 1;
    epoch[i]++;
    printf("@ defer %d %d\n", i, epoch[i]);
    send_up(i, defer, epoch[i], 0);
    update_choices(i)
}

inline make_claim(i) {
    s = pair_s[i];
    r = pair_r[i];
    printf("@ claim %d %d\n", s, r);
    send_state[s] = claimed;
    target[s] = r + 1;
    if
    :: UNORDERED_CLAIMS -> unordered_claims[i]!r, s
    :: else -> send_up(i, claim, r, s)
    fi;
    update_choices(i)
}

/* s: the send of source i that claims receive r, or NONE. */
inline find_claim_of(i, r) {
    s = NONE;
    for (k : FIRST(i) .. LAST(i)) {
        s = (send_state[k] == claimed && target[k] == r + 1 -> k : s)
    }
}

inline read_rtr(i, r, e) {
    ok = NO_EPOCH || (is_deferring[i] && e == epoch[i]);
    if
    :: ok && FORGET_RTR ->
        find_first(i, r);
        ok = (x != NONE)
    :: else
    fi;
    advertised[i] = (ok -> with(advertised[i], r) : advertised[i])
}

inline read_retire(i, r) {
    advertised[i] = without(advertised[i], r);
    find_claim_of(i, r);
    if
    :: s != NONE ->
        printf("@ lost_claim %d %d\n", s, r);
        send_state[s] = deferred;
        target[s] = 0;
        demoted[s] = LOSER_LAST
    :: else
    fi
}

/* ok: the receive has a buffer. */
inline read_grant(i, r, ok) {
    advertised[i] = without(advertised[i], r);
    find_claim_of(i, r);
    must(s != NONE, "a grant finds its claim (E1)");
    send_state[s] = (ok || PROBE_WRITES -> may_write : emitted);
    if
    :: send_state[s] == may_write && !DATA -> begin_write(s)
    :: else
    fi
}

inline read_fetch(i, s, r) {
    target[s] = r + 1;
    send_state[s] = may_write;
    if
    :: !DATA -> begin_write(s)
    :: else
    fi
}

/* x: the first send that the probe would receive; none while a claim on it is not answered. The
 * receiver checks whether an open receive comes before the probe. */
inline read_peek(i, t, e) {
    x = NONE;
    for (k : FIRST(i) .. LAST(i)) {
        if
        :: x == NONE && (send_state[k] == deferred || (send_state[k] == claimed && !PEEK_CLAIMED)) &&
           accepts_tag(t, k) -> x = k
        :: else
        fi
    }
    if
    :: x != NONE -> ok = (send_state[x] == deferred && ((is_deferring[i] && e == epoch[i]) || PEEK_EPOCH))
    :: else
    fi;
    printf("@ peeked %d %d %d\n", i, ok, x);
    x = (ok -> x + 1 : 0);
    send_up(i, peeked, x, 0)
}

inline read_down(i) {
    down[i]?down_packet, m, y;
    if
    :: down_packet == rtr -> printf("@ got_rtr %d %d %d\n", i, m, y); read_rtr(i, m, y)
    :: down_packet == retire -> printf("@ got_retire %d %d\n", i, m); read_retire(i, m)
    :: down_packet == grant -> printf("@ got_grant %d %d\n", i, m); q = m; read_grant(i, q, y)
    :: down_packet == credit ->
        printf("@ got_credit %d %d %d\n", i, m, y);
        credits[i] = credits[i] + m;
        pool[i] = pool[i] + y
    :: down_packet == fetch -> printf("@ got_fetch %d %d\n", m, y); q = m; read_fetch(i, q, y)
    :: down_packet == peek -> read_peek(i, m, y)
    fi;
    update_choices(i)
}

/* The receiver is dead: all sends that need it fail. */
inline give_up_receiver(i) {
    printf("@ learn %d 2\n", i);
    knows_death[i] = 1;
    advertised[i] = 0;
    for (k : FIRST(i) .. LAST(i)) {
        if
        :: send_state[k] == deferred || (send_state[k] == claimed && !CLAIM_OUTLIVES) ||
           send_state[k] == emitted || send_state[k] == may_write ||
           send_state[k] == being_written -> send_state[k] = given_up
        :: else
        fi;
        in_flight = without(in_flight, k)
    }
    do
    :: len(down[i]) > 0 -> down[i]?down_packet, m, y
    :: else -> break
    od;
    update_choices(i)
}

/* May source i emit, if it has a deferred send? */
#define may_emit(i) \
    (!knows_death[i] && first_deferred[i] != NONE && credits[i] > 0 && (!PAYLOAD_WAITS || pool[i] > 0) && \
     (is_deferring[i] -> (credits[i] >= LEAVE && (EMIT_IN_CLAIM || !has_claim[i])) : 1))
/* Has source i a possible step of its own? */
#define may_act(i) \
    (!dead[i] && !knows_death[i] && \
     (may_emit(i) || (!is_deferring[i] && first_deferred[i] != NONE && credits[i] == 0) || \
      (is_deferring[i] && pair_r[i] != NONE)))
#define sources_idle (!SOURCES_FIRST || (!may_act(0) && !may_act(1)))

proctype Source(byte i) {
    byte chosen;
end:
    do
    :: atomic {
        !dead[i] && sources_idle && sent[i] < LAST(i) + 1 - FIRST(i) ->
        if
        :: tag[FIRST(i) + sent[i]] = 0
        :: TAGS > 1 && sent[i] + i > 0 -> tag[FIRST(i) + sent[i]] = 1
        fi; /* the first send of A may have tag A without loss of generality */
        d_step { post_send(i) }
       }
    :: d_step { !dead[i] && may_emit(i) -> emit(i) }
    :: d_step {
        !dead[i] && !knows_death[i] && !is_deferring[i] && first_deferred[i] != NONE &&
            credits[i] == 0 ->
        begin_deferring(i)
       }
    :: d_step { !dead[i] && !knows_death[i] && is_deferring[i] && pair_r[i] != NONE -> make_claim(i) }
    :: d_step { !dead[i] && !knows_death[i] && sources_idle && nempty(down[i]) -> read_down(i) }
    :: atomic {
        DATA && !dead[i] && ready[i] ->
        do
        :: bit_of(ready[i], chosen) -> break
        :: ready[i] >> (chosen + 1) -> chosen++
        od;
        d_step { begin_write(chosen); chosen = 0; update_choices(i) }
       }
    :: d_step { DEATHS == 1 && !deaths && !dead[i] ->
        printf("@ die %d\n", i);
        deaths = 1;
        dead[i] = 1;
        step_ends()
       }
    :: d_step { dead[2] && !dead[i] && !knows_death[i] -> give_up_receiver(i) }
    od
}
