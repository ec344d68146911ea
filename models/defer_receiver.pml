/* SPDX-License-Identifier: BSD-3-Clause */
/* defer_receiver.pml - the receiving side of defer.pml, and the movement of its data. */

inline fail(r) {
    printf("@ fail %d\n", r);
    receive[r] = failed
}

/* Receive r is no longer open: RETIRE to all sources that got its RTR, except source i. */
inline retire_all(r, i) {
    for (q : 0 .. 1) {
        if
        :: q != i && defer_epoch[q] && could_match(r, q) && !known_dead[q] ->
            printf("@ retire %d %d\n", q, r);
            send_down(q, retire, r, 0)
        :: else
        fi
    }
}

/* ok: open receive r may be advertised to source i. */
inline may_advertise(r, i) {
    ok = could_match(r, i) && !(WILDCARDS_ONLY && want_source[r] != ANY) &&
         !(ONE_DEFERRER && i == 1 && defer_epoch[0]);
    n = 0;
    for (k : 0 .. RECEIVES - 1) {
        n = n + (k < r && receive[k] == open && could_match(k, i))
    }
    ok = ok && n < LIMIT
}

inline advertise(r, i) {
    may_advertise(r, i);
    if
    :: ok ->
        printf("@ rtr %d %d %d\n", i, r, defer_epoch[i]);
        send_down(i, rtr, r, defer_epoch[i])
    :: else
    fi
}

inline free_payload(s) {
    payloads = without(payloads, s);
    owed_pool[source_of(s)]++
}

/* Receive r, bound to the envelope of s, has a buffer. */
inline give_buffer(r, s) {
    x = source_of(s);
    receive[r] = filling;
    if
    :: bit_of(payloads, s) -> receive[r] = received; free_payload(s)
    :: else ->
        owed_pool[x] = owed_pool[x] + PAYLOAD_GIFT;
        if
        :: known_dead[x] && !FETCH_FROM_DEAD -> fail(r)
        :: else -> printf("@ fetch %d %d\n", s, r); send_down(x, fetch, s, r)
        fi
    fi
}

/* Matches the envelope of s with receive r. */
inline match_envelope(s, r) {
    bind(s, r);
    unexpected = without(unexpected, s);
    owed_credits[source_of(s)] = owed_credits[source_of(s)] + !CREDIT_AT_ARRIVAL;
    if
    :: is_probe[r] ->
        receive[r] = found;
        x = source_of(s);
        owed_pool[x] = owed_pool[x] + (PAYLOAD_AT_MATCH && bit_of(payloads, s))
    :: else -> give_buffer(r, s)
    fi
}

/* s: an unexpected envelope with the tag t of source w, preferring one of the sources; or NONE. */
inline find_unexpected(t, w, prefer) {
    s = NONE;
    for (q : 0 .. 1) {
        n = (q == 0 -> prefer : 1 - prefer);
        for (k : FIRST(n) .. LAST(n)) {
            s = (s == NONE && bit_of(unexpected, k) && accepts_tag(t, k) && (w == ANY || w == n) -> k : s)
        }
    }
}

/* Posts the receive with the number `posted`; its envelope is chosen. */
inline post_receive(prefer) {
    r = posted;
    posted++;
    if
    :: probed_send ->
        probed_for[r] = probed_send;
        want[r] = tag[probed_send - 1];
        want_source[r] = source_of(probed_send - 1);
        probed_send = 0
    :: else
    fi;
    printf("@ post %d %d %d %d\n", r, want[r], want_source[r], is_probe[r]);
    receive[r] = open;
    find_unexpected(want[r], want_source[r], prefer);
    if
    :: s != NONE -> match_envelope(s, r)
    :: s == NONE && want_source[r] != ANY && known_dead[want_source[r] & 1] && !WAIT_FOR_DEAD -> fail(r)
    :: else ->
        for (m : 0 .. 1) {
            if
            :: defer_epoch[m] -> advertise(r, m)
            :: else
            fi
        }
    fi;
    step_ends()
}

/* r: the first open receive that accepts s, or RECEIVES. */
inline find_open(s) {
    r = 0;
    do
    :: r < RECEIVES && (receive[r] != open || !accepts(r, s) || (PROBE_PASSED && is_probe[r])) ->
        r++
    :: else -> break
    od
}

inline read_envelope(i, s, with_payload) {
    defer_epoch[i] = 0;
    payloads = (with_payload -> with(payloads, s) : payloads);
    owed_credits[i] = owed_credits[i] + CREDIT_AT_ARRIVAL;
    find_open(s);
    if
    :: r < RECEIVES -> match_envelope(s, r); retire_all(r, 2)
    :: else ->
        printf("@ keep %d\n", s);
        unexpected = with(unexpected, s);
        count(i, unexpected);
        must(n <= WINDOW, "a source's envelopes keep to the window (B1)")
    fi;
    count(i, payloads);
    must(n <= POOL, "a source's payloads keep to the pool (B2)")
}

inline read_defer(i, e) {
    defer_epoch[i] = e;
    if
    :: LATER_ONLY
    :: else ->
        for (m : 0 .. RECEIVES - 1) {
            r = (BACKWARDS -> RECEIVES - 1 - m : m);
            if
            :: receive[r] == open -> advertise(r, i)
            :: else
            fi
        }
    fi
}

inline read_claim(i, r, s) {
    printf("@ got_claim %d %d\n", s, r);
    if
    :: receive[r] == open ->
        must(defer_epoch[i], "a claim arrives in its epoch (E1)");
        bind(s, r);
        receive[r] = (is_probe[r] -> found : filling);
        printf("@ grant %d %d\n", i, r);
        send_down(i, grant, r, !is_probe[r]);
        retire_all(r, i)
    :: else -> printf("@ too_late %d %d\n", s, r)
    fi
}

/* The probe returns message s - 1.  No other receive is posted before the one for it. */
inline probe_finds(s) {
    printf("@ probed %d\n", s - 1);
    must(!bound[s - 1], "a probe finds an unmatched message (P1)");
    for (k : 0 .. ALL - 1) {
        must(k >= s - 1 || source_of(k) != source_of(s - 1) || bound[k] ||
             !accepts_tag(peek_tag, k), "a probe finds the earliest message of a source (P1)")
    }
    peek_tag = NONE;
    if
    :: is_final -> final_found = 1
    :: else -> probed_send = s
    fi
}

/* s: the send that source i found, + 1; or 0. */
inline read_peeked(i, s) {
    peeks_open = without(peeks_open, i);
    if
    :: s && !probed_send && peek_tag != NONE ->
        find_open(s - 1);
        if
        :: r == RECEIVES || PEEK_TRUSTED -> probe_finds(s)
        :: else
        fi
    :: else
    fi
}

inline read_up(i) {
    up[i]?up_packet, m, y;
    if
    :: up_packet == env -> printf("@ got_env %d\n", m); s = m; read_envelope(i, s, y)
    :: up_packet == defer -> printf("@ got_defer %d %d\n", i, m); read_defer(i, m)
    :: up_packet == claim -> r = m; s = y; read_claim(i, r, s)
    :: up_packet == peeked -> s = m; read_peeked(i, s)
    fi;
    step_ends()
}

inline read_unordered_claim(i) {
    unordered_claims[i]?r, s;
    read_claim(i, r, s);
    step_ends()
}

inline return_credits(i) {
    printf("@ credit %d %d %d\n", i, owed_credits[i], owed_pool[i]);
    send_down(i, credit, owed_credits[i], owed_pool[i]);
    owed_credits[i] = 0;
    owed_pool[i] = 0;
    step_ends()
}

inline cancel(r) {
    if
    :: receive[r] == open ->
        printf("@ cancel %d\n", r);
        cancels++;
        receive[r] = cancelled;
        if
        :: FORGET_RETIRE
        :: else -> retire_all(r, 2)
        fi
    :: else
    fi;
    step_ends()
}

inline receive_found(r) {
    if
    :: receive[r] == found ->
        printf("@ receive_found %d\n", r);
        s = got[r] - 1;
        give_buffer(r, s)
    :: else
    fi;
    step_ends()
}

inline probe(t) {
    probes++;
    printf("@ probe %d\n", t);
    peek_tag = t;
    final_tag = (is_final -> t : NONE);
    find_unexpected(t, ANY, 0);
    if
    :: s != NONE -> probe_finds(s + 1)
    :: else ->
        for (m : 0 .. 1) {
            if
            :: defer_epoch[m] && !(PEEK_ONE && peeks_open) ->
                printf("@ peek %d %d %d\n", m, t, defer_epoch[m]);
                peeks_open = with(peeks_open, m);
                send_down(m, peek, t, defer_epoch[m])
            :: else
            fi
        }
    fi;
    step_ends()
}

/* Fails receive r, if it is bound to a send of source i or names it. */
inline fail_for(r, i) {
    if
    :: receive[r] == filling && source_of(got[r] - 1) == i ->
        if
        :: OPEN_AGAIN -> receive[r] = open
        :: else -> fail(r)
        fi
    :: receive[r] == open && want_source[r] == i -> fail(r)
    :: else
    fi
}

/* Shuts the path of the source's data, then fails the receives that wait for it; complete ones are
 * kept. */
inline give_up_source(i) {
    printf("@ learn 2 %d\n", i);
    known_dead[i] = 1;
    defer_epoch[i] = 0;
    peeks_open = without(peeks_open, i);
    do
    :: len(up[i]) > 0 -> up[i]?up_packet, m, y
    :: else -> break
    od;
    do
    :: len(unordered_claims[i]) > 0 -> unordered_claims[i]?r, s
    :: else -> break
    od;
    for (s : FIRST(i) .. LAST(i)) {
        if
        :: send_state[s] == being_written && !SHUT_LATE ->
            send_state[s] = given_up;
            in_flight = without(in_flight, s)
        :: else
        fi
    }
    for (r : 0 .. RECEIVES - 1) {
        if
        :: WAIT_FOR_DEAD
        :: else -> fail_for(r, i)
        fi
    }
    step_ends()
}

#define alive (!dead[2])
#define may_return_credits(i) (owed_credits[i] + owed_pool[i] >= BATCH)
#define may_probe \
    (!peeks_open && !probed_send && \
     (is_final -> final_tag == NONE : probes < PROBES && posted < RECEIVES))

proctype Receiver() {
    byte chosen;
end:
    do
    :: atomic {
        alive && sources_idle && posted < RECEIVES ->
        if
        :: probed_send
        :: !probed_send ->
            if
            :: want[posted] = 0
            :: TAGS > 1 -> want[posted] = 1
            :: TAGS > 1 -> want[posted] = ANY
            fi;
            if
            :: DIRECTED -> want_source[posted] = 0
            :: want_source[posted] = ANY
            fi;
            if
            :: is_probe[posted] = 0
            :: matched_probes < MATCHED_PROBES -> is_probe[posted] = 1; matched_probes++
            fi
        fi;
        if
        :: chosen = 0
        :: (unexpected & only(0)) && (unexpected & only(1)) -> chosen = 1
        fi;
        d_step { post_receive(chosen); chosen = 0 }
       }
    :: d_step { alive && sources_idle && !known_dead[0] && nempty(up[0]) -> read_up(0) }
    :: d_step { alive && sources_idle && !known_dead[1] && nempty(up[1]) -> read_up(1) }
    :: d_step {
        UNORDERED_CLAIMS && alive && sources_idle && !known_dead[0] &&
            nempty(unordered_claims[0]) -> read_unordered_claim(0)
       }
    :: d_step {
        UNORDERED_CLAIMS && alive && sources_idle && !known_dead[1] &&
            nempty(unordered_claims[1]) -> read_unordered_claim(1)
       }
    :: d_step { alive && sources_idle && !known_dead[0] && may_return_credits(0) -> return_credits(0) }
    :: d_step { alive && sources_idle && !known_dead[1] && may_return_credits(1) -> return_credits(1) }
    :: atomic {
        alive && sources_idle && cancels < CANCELS && posted > 0 ->
        do
        :: chosen + 1 < posted -> chosen++
        :: break
        od;
        d_step { cancel(chosen); chosen = 0 }
       }
    :: d_step { alive && sources_idle && MATCHED_PROBES && receive[0] == found -> receive_found(0) }
    :: d_step { alive && sources_idle && MATCHED_PROBES && receive[1 % RECEIVES] == found ->
        receive_found(1 % RECEIVES)
       }
    :: d_step { alive && sources_idle && MATCHED_PROBES && receive[2 % RECEIVES] == found ->
        receive_found(2 % RECEIVES)
       }
    :: atomic {
        PROBES && alive && sources_idle && may_probe ->
        if
        :: chosen = 0
        :: TAGS > 1 -> chosen = 1
        :: TAGS > 1 -> chosen = ANY
        fi;
        d_step { probe(chosen); chosen = 0 }
       }
    :: d_step { alive && dead[0] && !known_dead[0] -> give_up_source(0) }
    :: d_step { alive && dead[1] && !known_dead[1] -> give_up_source(1) }
    :: d_step { DEATHS == 2 && !deaths ->
        printf("@ die 2\n");
        deaths = 1;
        dead[2] = 1;
        step_ends()
       }
    od
}

proctype Transport() {
    byte chosen;
end:
    do
    :: atomic {
        DATA && alive && in_flight ->
        do
        :: bit_of(in_flight, chosen) -> break
        :: in_flight >> (chosen + 1) -> chosen++
        od;
        d_step { land(chosen); chosen = 0; step_ends() }
       }
    od
}
