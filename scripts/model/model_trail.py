# SPDX-License-Identifier: BSD-3-Clause
"""The checker's way into an error, told in words or drawn as a message sequence.

The models print an event as a line `@ what number...`.  An event is told as who does what;
and it is drawn in a row of its own, as a note at a lane or as one end of an arrow.  Commands
and completions travel in queues, so their arrows have an end in a later row: the k-th that
was put in is the k-th that is taken out, of the same kind.
"""
import re
from html import escape

TAGS = ('tag A', 'tag B', 'any tag')
KINDS = ('eager', 'rendezvous')
ENDED = '(END)'  # marks a complete run that was searched for


class Event:
    """lane: who acts.  text: what.  start, end: (kind, from lane, to lane) of an arrow that
    begins or ends here; label: the text at its beginning.  note: the text next to the
    lane.  pair: the (message, receive) that is decided here."""

    def __init__(self, lane, text, start=None, end=None, label='', note=None, pair=None):
        self.lane, self.text, self.start, self.end = lane, text, start, end
        self.label, self.note = label or text, text if note is None else note
        self.pair = pair


def recv(number):
    return f'r{number}'


def message(number):
    return f'm{number}'


def count_state(found, reported, entries, armed):
    return f'found {found}, reported {reported}: ' + (
        'list empty' if not entries else 'armed' if armed == entries else 'not armed')


# ---- handover.pml ------------------------------------------------------------------------

COMMANDS = {'add': 'ADD', 'drop': 'DEL', 'revoke': 'signaled DEL', 'reclaim': 'signaled DEL',
            'fetch': 'signaled DEL', 'sync': 'SYNC'}
DOWN = ('software', 'device')
UP = ('device', 'software')
CALL = ('call', 'user', 'software')
WIRE = ('wire', 'senders', 'device')
SHARED = ('wire', 'senders', 'software')


def command_text(order, r):
    return COMMANDS[order] + ('' if order == 'sync' else f' {recv(r)}')


def software_command(order, r, count):
    text = f'{command_text(order, r)}, count {count}'
    return Event('software', f'posts the command {text}', start=('command ' + order, *DOWN),
                 label=text, note='')


def device_command(order, r, ok, *state):
    what = command_text(order, r) + ('' if ok else ': fails')
    event = Event('device', f'carries out {what}: {count_state(*state)}',
                  end=('command ' + order, *DOWN), note=count_state(*state))
    if order in ('revoke', 'reclaim', 'fetch'):
        event.start, event.label = (f'completion {order}', *UP), 'done' if ok else 'failed'
    return event


def call(verb, text):
    return Event('user', f'{verb}s {text}', CALL, CALL, f'{verb} {text}', '')


def arrival(m, tag, path, text):
    what = f'{message(m)}, {TAGS[tag]}'
    return Event('senders', f'{what}, reaches {text}', path, path, what, '')


def device_match(m, r):
    return Event('device', f'matches {recv(r)} with {message(m)}', ('completion match', *UP),
                 label=f'MATCH {recv(r)}, {message(m)}', note=f'{recv(r)} gets {message(m)}',
                 pair=(m, r))


def device_unexpected(m, found):
    return Event('device', f'has no armed entry for {message(m)}: unexpected, found = {found}',
                 ('completion unexpected', *UP), label=f'unexpected {message(m)}',
                 note=f'no armed entry fits: found {found}')


def poll(kind, text, note):
    return Event('software', f'polls: {text}', end=(f'completion {kind}', *UP), note=note)


def answer(order, r, ok):
    text = f'the take-back of {recv(r)} ' + ('succeeded' if ok else 'failed')
    return poll(order, text, text)


HANDOVER = {
    'post': lambda r, want: call('post', f'{recv(r)}, {TAGS[want]}'),
    'cancel': lambda r: call('cancel', recv(r)),
    'send': lambda m, tag: arrival(m, tag, WIRE, 'the device'),
    'shared': lambda m, tag: arrival(m, tag, SHARED, 'software past the device'),
    'device_match': device_match,
    'device_unexpected': device_unexpected,
    'poll_match': lambda m, r: poll('match', f'{recv(r)} was matched with {message(m)}',
                                    f'{recv(r)} has {message(m)}'),
    'poll_unexpected': lambda m: poll('unexpected', f'{message(m)} is unexpected',
                                      f'{message(m)}: who fits?'),
    'poll_revoke': lambda r, ok: answer('revoke', r, ok),
    'poll_reclaim': lambda r, ok: answer('reclaim', r, ok),
    'poll_fetch': lambda r, ok: answer('fetch', r, ok),
    'fetch_all': lambda: Event('software', 'wants all receives back', note='all back'),
    'software_match': lambda m, r: Event('software', f'gives {message(m)} to {recv(r)}',
                                         note=f'{recv(r)} gets {message(m)}', pair=(m, r)),
    'enter': lambda r: Event('software', f'puts {recv(r)} on the shadow list',
                             note=f'{recv(r)} is posted'),
    'keep': lambda m: Event('software', f'keeps {message(m)} as unexpected',
                            note=f'nobody: {message(m)} is kept'),
    'park': lambda m, r: Event('software', f'parks {message(m)}, which fits {recv(r)}',
                               note=f'{message(m)} is parked'),
    'close': lambda: Event('software', 'gives the device up and closes it'),
    'sweep': lambda: Event('software', 'takes the receives back'),
}

# ---- delivery.pml ------------------------------------------------------------------------


def handle(number):
    return f'h{number}'


DELIVERY = {
    'post': lambda r: Event('user', f'posts {recv(r)}'),
    'cancel': lambda r: Event('user', f'cancels {recv(r)}'),
    'arrive': lambda m, kind: Event('senders', f'{message(m)} arrives, {KINDS[kind]}'),
    'device_match': lambda m, r, h: Event('device', f'matches {recv(r)} (handle {handle(h)}) with '
                                          f'{message(m)}: MATCH {handle(h)}'),
    'data': lambda m, r: Event('device', f'the data of {message(m)} is written into the buffer '
                               f'of {recv(r)}'),
    'device_valid': lambda m, h: Event('device', f'{message(m)} is whole: DATA_VALID {handle(h)}'),
    'fin': lambda m, ok: Event('device', f'{message(m)}: FIN to the sender' if ok else
                               f'{message(m)}: fails at the sender'),
    'device_add': lambda h, r: Event('device', f'carries out ADD {handle(h)} ({recv(r)})'),
    'device_revoke': lambda h, ok: Event('device', f'carries out DEL {handle(h)}: ' +
                                         ('done' if ok else 'fails')),
    'software_add': lambda h, r: Event('software', f'hands {recv(r)} over as handle {handle(h)}'),
    'software_match': lambda m, r: Event('software', f'receives {message(m)} into {recv(r)} '
                                         'by itself'),
    'poll_match': lambda h, m: Event('software', f'polls MATCH {handle(h)} ({message(m)})'),
    'poll_valid': lambda h, ok: Event('software', f'polls DATA_VALID {handle(h)}'),
    'poll_revoke': lambda h, ok: Event('software', f'polls the answer to DEL {handle(h)}: ' +
                                       ('done' if ok else 'failed')),
    'close': lambda: Event('software', 'gives the device up'),
    'sweep': lambda: Event('software', 'takes the receives back'),
}

# ---- defer.pml, lockword.pml -------------------------------------------------------------

PARTIES = ('source A', 'source B', 'receiver')
NOBODY = 3


class Sides:
    """Events of the two models of matching at the sender.  The sends of source A come first,
    so whose a send is follows from how many those are."""

    def __init__(self, model, sends):
        self.sends = sends
        self.number = 'epoch' if model == 'defer' else 'generation'

    def owner(self, s):
        return PARTIES[s >= self.sends]

    def up(self, kind, s, text):
        lane = self.owner(s)
        return Event(lane, text, (f'command {kind}', lane, 'receiver'), note='')

    def got_up(self, kind, s, text):
        way = (f'command {kind}', self.owner(s), 'receiver')
        return Event('receiver', f'reads {text}', end=way, note='')

    @staticmethod
    def down(kind, i, text):
        return Event('receiver', text, (f'completion {kind}', 'receiver', PARTIES[i]), note='')

    @staticmethod
    def got_down(kind, i, text):
        return Event(PARTIES[i], f'reads {text}',
                     end=(f'completion {kind}', 'receiver', PARTIES[i]), note='')

    def fetched(self, s):
        return int(s >= self.sends)

    def events(self):
        """{what: function that makes the event}"""
        return {
            'send': lambda s, tag: Event(self.owner(s), f'send s{s}, {TAGS[tag]}'),
            'emit': lambda s, full: self.up('env', s, f'envelope of s{s}' +
                                            (' and payload' if full else '')),
            'got_env': lambda s: self.got_up('env', s, f'envelope of s{s}'),
            'defer': lambda i, e: self.up('defer', i * self.sends, f'DEFER, epoch {e}'),
            'got_defer': lambda i, e: self.got_up('defer', i * self.sends, f'DEFER, epoch {e}'),
            'claim': lambda s, r: self.up('claim', s, f'CLAIM s{s} for r{r}'),
            'got_claim': lambda s, r: self.got_up('claim', s, f'CLAIM s{s} for r{r}'),
            'peeked': lambda i, ok, s: self.up('peeked', i * self.sends,
                                               f'PEEKED s{s}' if ok else 'PEEKED none'),
            'lock': lambda s, r: self.up('lock', s, f'compare-and-swap of the word of r{r} for s{s}'),
            'won': lambda s, r: Event(self.owner(s), f's{s} has r{r}'),
            'lost_claim': lambda s, r: Event(self.owner(s), f's{s} lost r{r}: back in its place'),
            'too_late': lambda s, r: Event('receiver', f'r{r} is not open: s{s} is not matched'),
            'write': lambda s, r: Event(self.owner(s), f'begins to write s{s} into r{r}'),
            'land': lambda s, r: Event(self.owner(s), f'the data of s{s} is written into r{r}'),
            'rtr': lambda i, r, e: self.down('rtr', i, f'RTR r{r}, {self.number} {e}'),
            'got_rtr': lambda i, r, e: self.got_down('rtr', i, f'RTR r{r}, {self.number} {e}'),
            'retire': lambda i, r: self.down('retire', i, f'RETIRE r{r}'),
            'got_retire': lambda i, r: self.got_down('retire', i, f'RETIRE r{r}'),
            'grant': lambda i, r: self.down('grant', i, f'GRANT r{r}'),
            'got_grant': lambda i, r: self.got_down('grant', i, f'GRANT r{r}'),
            'credit': lambda i, n, p: self.down('credit', i, f'CREDIT {n}, {p} of payload'),
            'got_credit': lambda i, n, p: self.got_down('credit', i, f'CREDIT {n}, {p} of payload'),
            'fetch': lambda s, r: self.down('fetch', self.fetched(s), f'FETCH s{s} into r{r}'),
            'got_fetch': lambda s, r: self.got_down('fetch', self.fetched(s),
                                                    f'FETCH s{s} into r{r}'),
            'peek': lambda i, t, e: self.down('peek', i, f'PEEK {TAGS[t]}, epoch {e}'),
            'got_ask': lambda i, r, ok: Event(PARTIES[i], f'is asked for r{r} back: ' +
                                              ('yes' if ok else 'too late')),
            'post': lambda r, want, source, *probe: Event(
                'receiver', ('matched probe ' if any(probe) else 'post ') +
                f'r{r}, {TAGS[want]}, ' + ('from A', 'from B', 'any source')[source]),
            'keep': lambda s: Event('receiver', f's{s} is unexpected'),
            'bind': lambda s, r: Event('receiver', f'r{r} gets s{s}', pair=(s, r)),
            'cancel': lambda r: Event('receiver', f'cancel r{r}'),
            'receive_found': lambda r: Event('receiver', f'a buffer for what probe r{r} found'),
            'probe': lambda t: Event('receiver', f'probe, {TAGS[t]}'),
            'probed': lambda s: Event('receiver', f'the probe finds s{s}'),
            'inspect_taken': lambda r, i: Event('receiver', f'sees r{r} taken by ' + (
                'nobody it knows' if i == NOBODY else PARTIES[i])),
            'fail': lambda r: Event('receiver', f'r{r} fails'),
            'die': lambda i: Event(PARTIES[i], 'dies'),
            'learn': lambda i, j: Event(PARTIES[i], f'learns that {PARTIES[j]} is dead'),
        }


def sides(model, trail):
    """Whose a send is, from the line `sends of A: N` that the models print first."""
    for line in trail:
        if line.strip().startswith('sends of A: '):
            return Sides(model, int(line.split()[-1])).events()
    return Sides(model, 0).events()


# ---- sendtable.pml ------------------------------------------------------------------------

SENDTABLE = {
    'send': lambda s, tag: Event('source A', f'send s{s}, {TAGS[tag]}'),
    'emit': lambda s: Event('source A', f'envelope of s{s} leaves'),
    'defer': lambda e: Event('source A', f'DEFER, epoch {e}'),
    'claim': lambda s, r: Event('source A', f'CLAIM s{s} for r{r}'),
    'shut': lambda: Event('source A', 'begins to decide'),
    'post': lambda r, want: Event('receiver', f'post r{r}, {TAGS[want]}'),
    'rtr': lambda r, e: Event('receiver', f'RTR r{r}, epoch {e}'),
    'read_version': lambda g: Event('receiver', f'reads the version, generation {g}'),
    'pull': lambda s, r: Event('receiver', f'sets its bit for s{s}'),
    'bind': lambda s, r: Event('receiver', f'r{r} gets s{s}', pair=(s, r)),
}


# ---- advert.pml -----------------------------------------------------------------------------

ADVERT = {
    'send': lambda s, tag: Event('source A', f'send s{s}, {TAGS[tag]}'),
    'emit': lambda s: Event('source A', f's{s} leaves by itself'),
    'keep': lambda n: Event('source A', f'keeps ADVERTISE {n}'),
    'void': lambda n: Event('source A', f'does not keep ADVERTISE {n}'),
    'write': lambda s, r: Event('source A', f'takes the word of r{r} for s{s}, WRITE'),
    'post': lambda r, want: Event('receiver', f'post r{r}, {TAGS[want]}'),
    'announce': lambda r, n: Event('receiver', f'ADVERTISE r{r}, number {n}'),
    'cancel': lambda r: Event('receiver', f'cancel r{r}'),
    'bind': lambda s, r: Event('receiver', f'r{r} gets s{s}', pair=(s, r)),
}


# ---- bias.pml -------------------------------------------------------------------------------

BIAS = {
    'counts': lambda t, depth: Event(f'thread {t}', f'counts itself inside, {depth} deep, and looks at the state'),
    'uses': lambda t: Event(f'thread {t}', 'begins to use the data'),
    'leaves': lambda t, depth: Event(f'thread {t}', f'leaves, still {depth} deep'),
    'steps': lambda t: Event(f'thread {t}', 'steps out'),
    'waits': lambda t: Event(f'thread {t}', 'gives up, and waits until the data is shared'),
    'revokes': lambda t: Event(f'thread {t}', 'revokes'),
    'switches': lambda t: Event(f'thread {t}', 'switches the data'),
}


# ---- words -------------------------------------------------------------------------------


def read(model, trail):
    """([Event], the rule that broke) of the lines that a model printed."""
    events, broken = [], ''
    tables = {'handover': HANDOVER, 'delivery': DELIVERY, 'sendtable': SENDTABLE, 'advert': ADVERT, 'bias': BIAS}
    table = tables[model] if model in tables else sides(model, trail)
    for line in trail:
        words = line.split()
        if line.startswith('broken: '):
            return events, line.removeprefix('broken: ')
        if not words or words[0] != '@':
            continue
        numbers = [int(word) for word in words[1:] if re.fullmatch(r'\d+', word)]
        if words[1] in ('software', 'device'):
            make = software_command if words[1] == 'software' else device_command
            events.append(make(words[2], *numbers))
        else:
            events.append(table[words[1]](*numbers))
    return events, broken


def tell(model, trail):
    """Lines for a terminal."""
    events, broken = read(model, trail)
    lines = [f'{number:4}  {event.lane:9} {event.text}' for number, event in enumerate(events, 1)]
    whole = broken.endswith(ENDED)
    return lines + ['      the run is over' if whole else f'      broken: {broken}']


# ---- drawing -----------------------------------------------------------------------------

LANES = {'senders': 90, 'device': 400, 'software': 800, 'user': 1010,
         'source A': 400, 'receiver': 800, 'source B': 90}
LEFT = ('device', 'source A')  # lanes with notes on the left
WIDTH, ROW, TOP = 1100, 46, 118
ACTORS = {'device': 'the device', 'software': 'software'}

STYLE = '''
  .panel { fill: #ffffff; stroke: #d0d7de }
  .lane { stroke: #afb8c1; stroke-width: 1.5 }
  .head { fill: #eaeef2; stroke: #afb8c1 }
  text { fill: #1f2328; font: 15px "DejaVu Sans", "Helvetica Neue", Arial, sans-serif }
  .name, .title { font-weight: bold }
  .title { font-size: 18px }
  .note { fill: #57606a; font-size: 14px }
  .hit { fill: #1a7f37; font-weight: bold }
  .miss { fill: #cf222e; font-weight: bold }
  .wire { stroke: #1f2328; fill: #1f2328 }
  .command { stroke: #8250df; fill: #8250df }
  .completion { stroke: #0969da; fill: #0969da }
  .call { stroke: #1f2328; fill: #1f2328 }
  .arrow { stroke-width: 1.8 }
  .under-way { stroke-dasharray: 6 5 }
  .label { stroke: none; paint-order: stroke }
  .halo { stroke: #ffffff; stroke-width: 5; paint-order: stroke }
  .bad { fill: #ffebe9; stroke: #cf222e }
  .good { fill: #dafbe1; stroke: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    .panel { fill: #0d1117; stroke: #3d444d }
    .lane, .head { stroke: #545d68 }
    .head { fill: #212830 }
    text, .wire, .call { fill: #e6edf3 }
    .wire, .call { stroke: #e6edf3 }
    .note { fill: #9198a1 }
    .command { stroke: #ab7df8; fill: #ab7df8 }
    .completion { stroke: #4493f8; fill: #4493f8 }
    .hit { fill: #3fb950 }
    .miss { fill: #f85149 }
    .halo { stroke: #0d1117 }
    .bad { fill: #3c1618; stroke: #f85149 }
    .good { fill: #12261e; stroke: #3fb950 }
  }
'''


class Drawing:
    def __init__(self):
        self.lines, self.words = [], []

    def text(self, x, y, anchor, kind, words):
        self.words.append(f'<text x="{x}" y="{y:g}" text-anchor="{anchor}" class="{kind}">'
                          f'{escape(words)}</text>')

    def arrow(self, kind, x1, y1, x2, y2, arrives=True):
        """From lane to lane, with a head unless it is still under way."""
        way = '' if arrives else ' under-way'
        self.lines.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" '
                          f'class="{kind} arrow{way}"/>')
        if arrives:
            dx, dy = x2 - x1, y2 - y1
            length = (dx * dx + dy * dy) ** 0.5
            ux, uy = dx / length, dy / length
            bx, by = x2 - 11 * ux, y2 - 11 * uy
            points = [(x2, y2), (bx - 4.5 * uy, by + 4.5 * ux), (bx + 4.5 * uy, by - 4.5 * ux)]
            self.lines.append(f'<polygon class="{kind}" points="' +
                              ' '.join(f'{x:.1f},{y:.1f}' for x, y in points) + '"/>')


def arrow_ends(events):
    """{row where an arrow begins: row where it ends, or None}"""
    ends, open_rows = {}, {}
    for row, event in enumerate(events):
        if event.end and event.end == event.start:
            ends[row] = row
            continue
        if event.end:
            ends[open_rows[event.end].pop(0)] = row
        if event.start:
            open_rows.setdefault(event.start, []).append(row)
            ends[row] = None
    return ends


def draw_arrow(drawing, event, y1, y2, bottom):
    kind, origin, target = event.start
    x1, x2 = LANES[origin], LANES[target]
    right = x2 > x1
    if y2 is None:  # cut off at the end of the story
        part = (bottom - y1) / (9.0 * ROW)
        drawing.arrow(kind.split()[0], x1, y1, x1 + (x2 - x1) * part, bottom, arrives=False)
    else:
        drawing.arrow(kind.split()[0], x1, y1, x2, y2)
    drawing.text(x1 + (12 if right else -12), y1 - 7, 'start' if right else 'end',
                 f'{kind.split()[0]} label halo', event.label)


def draw_note(drawing, event, y, whole, last):
    """Draws the note next to its lane, on the side where no queue is."""
    left = event.lane in LEFT
    x = LANES[event.lane] + (-12 if left else 12)
    wrong = last if event.lane == 'receiver' else not whole
    kind = 'note' if not event.pair else 'note miss' if wrong else 'note hit'
    drawing.text(x, y + 5, 'end' if left else 'start', kind + ' halo', event.note)


def last_words(events, broken, whole):
    """The result of the run; if a receive is matched twice, by whom and with which messages."""
    if whole:
        return 'each receive is matched once, and in order'
    pairs = [event for event in events if event.pair]
    ends = [event for event in pairs if event.pair[1] == pairs[-1].pair[1]]
    if len(ends) < 2 or any(event.lane not in ACTORS for event in ends):
        return f'broken: {broken}'
    return f'{recv(ends[0].pair[1])} is matched twice: ' + ', '.join(
        f'with {message(event.pair[0])} by {ACTORS[event.lane]}' for event in ends)


def draw(model, trail, title):
    """The text of an SVG file."""
    events, broken = read(model, trail)
    drawing, ends = Drawing(), arrow_ends(events)
    whole = broken.endswith(ENDED)
    bottom = TOP + len(events) * ROW
    height = bottom + 66
    own = ('source A', 'receiver') if model in ('defer', 'lockword') else tuple(LANES)[:4]
    used = {event.lane for event in events}.union(own)
    for lane, x in LANES.items():
        if lane not in used:
            continue
        drawing.lines.append(
            f'<line x1="{x}" y1="84" x2="{x}" y2="{bottom}" class="lane"/>'
            f'<rect x="{x - 55}" y="56" width="110" height="28" rx="5" class="head"/>')
        drawing.text(x, 75, 'middle', 'name', lane)
    for row, event in enumerate(events):
        y = TOP + row * ROW
        if event.start:
            end = ends[row]
            draw_arrow(drawing, event, y, None if end is None else TOP + end * ROW, bottom)
        if event.note:
            draw_note(drawing, event, y, whole, event is events[-1])
    drawing.text(24, 36, 'start', 'title', title)
    drawing.lines.append(f'<rect x="24" y="{bottom + 14}" width="{WIDTH - 48}" height="34" rx="5" '
                         f'class="{"good" if whole else "bad"}"/>')
    drawing.text(WIDTH / 2, bottom + 36, 'middle', 'name',
                 last_words(events, broken, whole))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">\n'
            '<!-- SPDX-License-Identifier: BSD-3-Clause -->\n'
            '<!-- made by scripts/model/check -->\n'
            f'<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
            f'<rect x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="8" '
            'class="panel"/>\n' +
            '\n'.join(drawing.lines + drawing.words) + '\n</svg>\n')
