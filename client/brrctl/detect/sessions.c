/* sessions: the open streams of the daemon; sessions observe ID: one of them live, drawn in a terminal or line by line; sessions
 * close ID. */
#include <sys/ioctl.h>

#include "base/counted.h"
#include "base/principal.h"
#include "brr/v1/beds.pb-c.h"
#include "brr/v1/sessions.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"

enum { RATE_HZ = 256, HISTORY_S = 512, CHART_ROWS = 8, LEVELS = 8, EVENTS_SHOWN = 5, REDRAW_MS = 200, DEFAULT_COLUMNS = 80 };

static double seconds_of(int64_t samples) { return (double)samples / RATE_HZ; }

/* ---- list ---- */

enum { SHOWN_NAMES = 3, SHORT_ID = 8 };

static const char *channel_name(const Brr__V1__SessionInfo *s, int32_t i) {
    return i >= 0 && (size_t)i < s->n_channel_names ? s->channel_names[i] : "?";
}

/* One flaw of a signal and its channels. */
struct flaw {
    const char *name;
    const int32_t *channels;
    size_t n;
};
enum { FLAWS = 4 };
static void list_flaws(const Brr__V1__Quality *q, struct flaw ret[FLAWS]) {
    const struct flaw all[FLAWS] = {{"flat", q->flat, q->n_flat},
                                    {"clipped", q->clipped, q->n_clipped},
                                    {"missing", q->missing, q->n_missing},
                                    {"noisy", q->noisy, q->n_noisy}};
    memcpy(ret, all, sizeof all);
}

static void put_quality(struct json_writer *w, const void *session) {
    const Brr__V1__SessionInfo *s = session;
    struct flaw flaws[FLAWS];
    if (!s->quality) {
        json_put_null(w, "quality");
        return;
    }
    list_flaws(s->quality, flaws);
    json_begin_object(w, "quality");
    for (int k = 0; k < FLAWS; k++) {
        json_begin_array(w, flaws[k].name);
        for (size_t i = 0; i < flaws[k].n; i++)
            json_put_str(w, NULL, channel_name(s, flaws[k].channels[i]));
        json_end(w, ']');
    }
    json_put_f64(w, "gap_fraction", s->quality->gap_fraction);
    json_put_f64(w, "measured_rate_hz", s->quality->measured_rate_hz > 0 ? s->quality->measured_rate_hz : NAN);
    json_end(w, '}');
}

static void add_flaw(struct str *text, const Brr__V1__SessionInfo *s, const struct flaw *f) {
    for (size_t i = 0; i < f->n && i < SHOWN_NAMES; i++)
        str_printf(text, "%s%s", i ? " " : text->len ? ", " : "", channel_name(s, f->channels[i]));
    if (f->n > SHOWN_NAMES)
        str_printf(text, " and %zu more", f->n - SHOWN_NAMES);
    if (f->n)
        str_printf(text, " %s", f->name);
}

/* "the samples look like V, not µV, Fp1 O2 flat, learning this patient, 40 s, 20 % gaps"; "good" where there is nothing to say. */
static const char *quality_text(const Brr__V1__SessionInfo *s, char *buf, size_t size) {
    const Brr__V1__Quality *q = s->quality;
    struct flaw flaws[FLAWS];
    OWNED(str_done) struct str text = str_of(size - 1);
    str_puts(&text, s->note);
    if (q)
        list_flaws(q, flaws);
    for (int k = 0; q && k < FLAWS; k++)
        add_flaw(&text, s, &flaws[k]);
    if (s->learning_s)
        str_printf(&text, "%slearning this patient, %d s", text.len ? ", " : "", (int)s->learning_s);
    if (q && q->gap_fraction > 0)
        str_printf(&text, "%s%.0f %% gaps", text.len ? ", " : "", 100 * q->gap_fraction);
    if (q && q->measured_rate_hz > 0)
        str_printf(&text, "%s%.1f Hz instead of %g", text.len ? ", " : "", q->measured_rate_hz, s->rate_hz);
    str_copy(buf, size, text.len ? str_cstr(&text) : s->samples ? "good" : "-");
    return buf;
}

static const char fields[] =
    "session=session_id client=client_name principal address model device realtime replay connected rate_hz channels opened_ms "
    "received_through durable_through samples events lag_s alarm state? silent_until_ms silenced_by blind cut alarms_off "
    "learning_s "
    "note "
    "probability reconnects";

/* The words of the pages. */
static const char *words_of(const char *state, bool live) {
    static const char *const words[][2] = {
        {"alarm", "ALARM"}, {"was", "was on"}, {"lost", "no signal"}, {"poor", "poor signal"}, {"absent", "not connected"}};
    if (!live && !strcmp(state, "alarm"))
        return "replay: alarm";
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(state, words[i][0]))
            return words[i][1];
    return strcmp(state, "fine") != 0 ? state : live ? "good" : "replay";
}

/* The state, from the other fields where an older daemon does not send it. */
static const char *state_words(const Brr__V1__SessionInfo *s) {
    return words_of(*s->state ? s->state : !s->connected ? "lost" : s->alarm ? "alarm" : "fine", s->realtime && !s->replay);
}

/* The state, and what people must know of its alarm. */
static const char *state_text(const Brr__V1__SessionInfo *s, char *buf, size_t size) {
    char until[32];
    const bool in_alarm = !strcmp(s->state, "alarm") || !strcmp(s->state, "was");
    str_format(buf, size, "%s%s%s%s", s->cut && !strcmp(s->state, "was") ? "cut in alarm" : state_words(s),
               s->blind ? ", blind" : "",
               !in_alarm || s->connected ? ""
               : s->blind                ? ": connection lost"
                                         : ", connection lost",
               s->alarms_off ? ", alarms off" : "");
    const size_t len = strlen(buf);
    if (s->silent_until_ms)
        str_format(buf + len, size - len, ", silent until %s by %s", output_time(s->silent_until_ms, until, sizeof until),
                   s->silenced_by);
    return buf;
}

static void list_session(struct listing *l, const void *session) {
    const Brr__V1__SessionInfo *s = session;
    char at[32], p[16], quality[120], state[200];
    listing_row(l, "%.*s|%s|%s|%s|%s|%s|%s|%s|%.2f|%s|%lld|%lld|%s", SHORT_ID, s->session_id, state_text(s, state, sizeof state),
                s->client_name, s->principal, s->address, s->model, s->device,
                output_clock(s->rate_hz > 0 ? (double)s->received_through / s->rate_hz : 0, at, sizeof at), s->lag_s,
                output_probability(s->probability, p), (long long)s->events, (long long)s->reconnects,
                quality_text(s, quality, sizeof quality));
}

static int list(const struct arguments *o) {
    static const struct brrctl_view view = {
        .json = fields,
        .put = put_quality,
        .titles = "session|state|client|principal|address|model|device|>received|>lag s|>probability|>events|>cuts|quality",
        .row = list_session,
        .items = "sessions",
        .none = "no stream is open; `brrctl stream FILE --model M` opens one"};
    const Brr__V1__ListSessionsRequest in = BRR__V1__LIST_SESSIONS_REQUEST__INIT;
    return brrctl_show(o, "/brr.v1.Sessions/List", &in.base, &view);
}

/* ---- beds ---- */

/* "on 0 min 40 s (a1b2c3), at the onset: left: F7-T3, acknowledged by Ana"; technical alarms by their kinds; the rule
 * that holds alarms back. */
static void put_alarms(struct str *text, const Brr__V1__Bed *b) {
    char time[32];
    if (b->alarm) {
        const int64_t end = b->alarm->off_ms ? b->alarm->off_ms : clock_wall_ms();
        str_printf(text, "%s %s (%s)",
                   b->alarm->cut      ? "cut in alarm after"
                   : b->alarm->off_ms ? "was on"
                                      : "on",
                   output_duration((double)(end - b->alarm->on_ms) / 1000, time, sizeof time), b->alarm->id);
    }
    if (b->alarm && *b->alarm->where)
        str_printf(text, ", at the onset: %s", b->alarm->where);
    if (b->alarm && b->alarm->answered)
        str_printf(text, ", acknowledged by %s",
                   *b->alarm->answered->person ? b->alarm->answered->person : principal_words(b->alarm->answered->by));
    for (size_t i = 0; i < b->n_technical; i++)
        str_printf(text, "%s%s", text->len ? ", " : "", b->technical[i]->kind);
    if (*b->rule)
        str_printf(text, "%s%s", text->len ? ", " : "", b->rule);
}

static void list_bed(struct listing *l, const void *bed) {
    const Brr__V1__Bed *b = bed;
    char p[16], lag[16] = "-", seen[32], learning[64] = "";
    const char *also = *b->quality ? ", " : "";
    OWNED(str_done) struct str alarms = str_of(4096);
    put_alarms(&alarms, b);
    if (b->learning_s)
        str_format(learning, sizeof learning, "learning this patient, %d s%s", (int)b->learning_s, also);
    if (*b->session_id)
        str_format(lag, sizeof lag, "%.2f", b->lag_s);
    output_time(b->seen_ms, seen, sizeof seen);
    const char *lost = !*b->session_id || b->connected || !b->alarm ? "" : b->ended_ms ? ", ended" : ", connection lost";
    listing_row(l, "%s|%s%s|%.*s|%s|%s|%s|%s%s|%s", b->name, words_of(b->state, b->live), lost, SHORT_ID, b->session_id,
                output_probability(b->probability, p), lag, seen, learning, b->quality, str_cstr(&alarms));
}

static int cmd_beds(const struct arguments *o) {
    static const struct brrctl_view view = {.titles = "bed|state|session|>probability|>lag s|samples until|quality|alarms",
                                            .row = list_bed,
                                            .none = "no stream is open, and `beds` of daemon.yaml lists none"};
    const Brr__V1__ListBedsRequest in = BRR__V1__LIST_BEDS_REQUEST__INIT;
    int code = 0;
    OWNED_ANSWER Brr__V1__ListBedsResponse *out = brrctl_call(o, "/brr.v1.Beds/List", &in.base, &code);
    if (!out)
        return code;
    brrctl_show_items(o, &view, (void *const *)out->beds, out->n_beds);
    if (out->left_out)
        fprintf(stderr, "brrctl: %lld more are not shown; `brrctl sessions` lists all\n", (long long)out->left_out);
    return 0;
}

BRRCTL_COMMAND(beds, "", &arguments_none, cmd_beds, "list beds and streams as the pages show them",
               "--json has every field of brr.v1.Bed, as GET /api/v1/beds has (docs/protocol.md)\nexample: brrctl beds");

/* ---- observe ---- */

struct view {
    const struct arguments *o;
    bool terminal, provisional; /* provisional: the alarm trace is shown, else the record trace */
    Brr__V1__SessionInfo *info; /* newest, copied */
    float history[HISTORY_S];   /* the largest probability of each second; index = second % HISTORY_S */
    int64_t newest_s;           /* of the history, -1 = none */
    char events[EVENTS_SHOWN][96];
    int n_events;
    int64_t missed, drawn_ms;
};

static void add_probabilities(struct view *v, int64_t first, const ProtobufCBinaryData *p) {
    const size_t n = p->len / sizeof(float);
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, p->data + i * sizeof value, sizeof value);
        int64_t second = (first + (int64_t)i) / RATE_HZ;
        if (second < 0 || second <= v->newest_s - HISTORY_S)
            continue;
        for (int64_t k = v->newest_s + 1 > second - HISTORY_S ? v->newest_s + 1 : second - HISTORY_S + 1; k <= second; k++)
            v->history[k % HISTORY_S] = NAN;
        v->newest_s = second > v->newest_s ? second : v->newest_s;
        v->history[second % HISTORY_S] = fmaxf(v->history[second % HISTORY_S], value);
    }
}

/* A line about what happened, for the picture or at once. */
static void note(struct view *v, const char *text) {
    if (!v->terminal) {
        puts(text);
        fflush(stdout);
        return;
    }
    if (v->n_events == EVENTS_SHOWN)
        memmove(v->events[0], v->events[1], sizeof v->events[0] * (EVENTS_SHOWN - 1));
    else
        v->n_events++;
    str_copy(v->events[v->n_events - 1], sizeof v->events[0], text);
}

static void note_event(struct view *v, const Brr__V1__Event *e) {
    char from[32], to[32], text[96];
    str_format(text, sizeof text, "%-12s seizure until %s, confidence %.3f",
               output_clock(seconds_of(e->first_sample), from, sizeof from), output_clock(seconds_of(e->end_sample), to, sizeof to),
               e->confidence);
    note(v, text);
}

static void note_alarm(struct view *v, const Brr__V1__Alarm *a) {
    char at[32], p[16], text[96];
    str_format(text, sizeof text, "%-12s alarm %s (%s)%s", output_clock(seconds_of(a->sample), at, sizeof at), a->on ? "on" : "off",
               output_probability(a->probability, p), output_alarm_reason(a->reason));
    note(v, text);
}

/* One line a second where nothing can be drawn. */
static void print_info(const Brr__V1__SessionInfo *s) {
    char at[32], p[16], quality[120];
    printf("%-12s probability %s%s, lag %.2f s, %s, signal %s%s\n",
           output_clock(s->rate_hz > 0 ? (double)s->received_through / s->rate_hz : 0, at, sizeof at),
           output_probability(s->probability, p), s->alarm ? ", ALARM" : "", s->lag_s, counted(s->events, "event").text,
           quality_text(s, quality, sizeof quality), s->connected ? "" : ", its client is away");
    fflush(stdout);
}

/* One row of the chart, from the top: eighths of a character for each second. */
static void print_chart_row(const struct view *v, int row, int columns) {
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    for (int64_t second = v->newest_s - columns + 1; second <= v->newest_s; second++) {
        float p = second >= 0 ? v->history[second % HISTORY_S] : NAN;
        int height = isfinite(p) ? (int)lroundf(p * CHART_ROWS * LEVELS) : 0;
        int part = height - (CHART_ROWS - 1 - row) * LEVELS;
        fputs(blocks[part < 0 ? 0 : part > LEVELS ? LEVELS : part], stdout);
    }
}

static void draw(struct view *v) {
    struct winsize size;
    char at[32], p[16], quality[120];
    const Brr__V1__SessionInfo *s = v->info;
    int columns = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col > 20 ? size.ws_col : DEFAULT_COLUMNS;
    columns = columns - 6 > HISTORY_S ? HISTORY_S : columns - 6;
    if (!s || clock_ms() - v->drawn_ms < REDRAW_MS)
        return;
    v->drawn_ms = clock_ms();
    fputs("\033[H\033[2J", stdout);
    printf("%s  %s  model %s  %d channels of %g Hz\n", s->session_id, s->client_name, s->model, s->channels, s->rate_hz);
    printf("%s  lag %.2f s  probability %s  %s%s\n",
           output_clock(s->rate_hz > 0 ? (double)s->received_through / s->rate_hz : 0, at, sizeof at), s->lag_s,
           output_probability(s->probability, p), s->alarm ? "\033[1;41m ALARM \033[0m" : "no alarm",
           s->connected ? "" : "  (its client is away)");
    printf("opened by %s  signal %s\n", s->principal, quality_text(s, quality, sizeof quality));
    for (int row = 0; row < CHART_ROWS; row++) {
        printf("%4s ", row == 0 ? "1" : row == CHART_ROWS - 1 ? "0" : "");
        print_chart_row(v, row, columns);
        putchar('\n');
    }
    printf("     the last %d s of the %s trace, second by second\n", columns, v->provisional ? "alarm" : "record");
    for (int i = 0; i < v->n_events; i++)
        puts(v->events[i]);
    if (v->missed)
        printf("%lld updates missed\n", (long long)v->missed);
    fflush(stdout);
}

static void put_probabilities(struct json_writer *w, const ProtobufCBinaryData *p) {
    float largest = NAN;
    for (size_t i = 0; i + sizeof(float) <= p->len; i += sizeof(float)) {
        float value;
        memcpy(&value, p->data + i, sizeof value);
        largest = fmaxf(largest, value);
    }
    json_put_f64(w, "largest", (double)largest);
}

static void put_result(struct json_writer *w, const Brr__V1__Result *r) {
    json_begin_object(w, "result");
    output_fields(w, &r->base, "result_seq first_sample samples gap");
    put_probabilities(w, &r->probabilities);
    json_begin_array(w, "events");
    for (size_t i = 0; i < r->n_events; i++) {
        json_begin_object(w, NULL);
        json_put_f64(w, "onset_s", seconds_of(r->events[i]->first_sample));
        json_put_f64(w, "end_s", seconds_of(r->events[i]->end_sample));
        json_put_f64(w, "confidence", r->events[i]->confidence);
        json_end(w, '}');
    }
    json_end(w, ']');
    json_end(w, '}');
}

static void print_json(const Brr__V1__SessionUpdate *u) {
    struct json_writer *w = output_begin();
    if (u->kind_case == BRR__V1__SESSION_UPDATE__KIND_INFO) {
        json_begin_object(w, "info");
        output_fields(w, &u->info->base, fields);
        put_quality(w, u->info);
        json_end(w, '}');
    } else if (u->kind_case == BRR__V1__SESSION_UPDATE__KIND_RESULT) {
        put_result(w, u->result);
    } else if (u->kind_case == BRR__V1__SESSION_UPDATE__KIND_ALARM) {
        json_begin_object(w, "alarm");
        json_put_i64(w, "alarm_seq", u->alarm->alarm_seq);
        json_put_bool(w, "on", u->alarm->on);
        json_put_str(w, "reason", *u->alarm->reason ? u->alarm->reason : NULL);
        json_put_f64(w, "time_s", seconds_of(u->alarm->sample));
        json_put_f64(w, "probability", u->alarm->probability);
        json_end(w, '}');
    } else if (u->kind_case == BRR__V1__SESSION_UPDATE__KIND_PROVISIONAL) {
        json_begin_object(w, "provisional");
        output_fields(w, &u->provisional->base, "first_sample samples");
        put_probabilities(w, &u->provisional->probabilities);
        json_end(w, '}');
    }
    json_put_i64(w, "missed", u->missed);
    output_end(w);
}

/* Keep the newest state of the session beyond the message it came in. */
static void keep_info(struct view *v, const Brr__V1__SessionInfo *info) {
    size_t len = brr__v1__session_info__get_packed_size(info);
    OWNED_MEMORY uint8_t *bytes = malloc(len + 1);
    if (!bytes)
        return;
    brr__v1__session_info__pack(info, bytes);
    brr__v1__session_info__free_unpacked(v->info, NULL);
    v->info = brr__v1__session_info__unpack(NULL, len, bytes);
}

static bool on_update(void *ctx, const void *message) {
    struct view *v = ctx;
    const Brr__V1__SessionUpdate *u = message;
    if (v->o->json) {
        print_json(u);
        return true;
    }
    if (u->missed > v->missed && !v->terminal)
        printf("%lld updates missed so far; this side reads too slowly\n", (long long)u->missed);
    v->missed = u->missed;
    if (u->kind_case == BRR__V1__SESSION_UPDATE__KIND_INFO) {
        keep_info(v, u->info);
        if (!v->terminal)
            print_info(u->info);
    } else if (u->kind_case == BRR__V1__SESSION_UPDATE__KIND_RESULT) {
        for (size_t i = 0; i < u->result->n_events; i++)
            note_event(v, u->result->events[i]);
        if (!v->provisional)
            add_probabilities(v, u->result->first_sample, &u->result->probabilities);
    } else if (u->kind_case == BRR__V1__SESSION_UPDATE__KIND_ALARM) {
        note_alarm(v, u->alarm);
    } else if (u->kind_case == BRR__V1__SESSION_UPDATE__KIND_PROVISIONAL) {
        v->provisional = true;
        add_probabilities(v, u->provisional->first_sample, &u->provisional->probabilities);
    }
    if (v->terminal)
        draw(v);
    return true;
}

static int observe(const struct arguments *o) {
    Brr__V1__ObserveSessionRequest in = BRR__V1__OBSERVE_SESSION_REQUEST__INIT;
    struct view v = {.o = o, .terminal = !o->json && output_redraws(stdout), .newest_s = -1};
    in.session_id = (char *)(uintptr_t)o->args[1];
    int code = brrctl_follow(o, "/brr.v1.Sessions/Observe", &in.base, on_update, &v);
    if (!code && !o->json)
        puts("the session has ended");
    brr__v1__session_info__free_unpacked(v.info, NULL);
    return code;
}

static int close_session(const struct arguments *o) {
    Brr__V1__CloseSessionRequest in = BRR__V1__CLOSE_SESSION_REQUEST__INIT;
    static char reason[] = "brrctl";
    int code = 0;
    in.session_id = (char *)(uintptr_t)o->args[1];
    in.reason = reason;
    OWNED_ANSWER Brr__V1__CloseSessionResponse *out = brrctl_call(o, "/brr.v1.Sessions/Close", &in.base, &code);
    if (out && o->json)
        output_text("closed", o->args[1]);
    else if (out)
        printf("%s is closed\n", o->args[1]);
    return code;
}

static const struct command_verb sessions_verbs[] = {
    {"list", "", &arguments_none, list, 1},
    {"observe", "ID", &arguments_none, observe, 2},
    {"close", "ID", &arguments_none, close_session, 2},
    {.name = NULL},
};

BRRCTL_COMMAND(sessions, "[list|observe|close] [ID]", &arguments_none, NULL, "list open streams, follow one live, or end one",
               "  observe ID   probability, alarms and events of a stream as they come: drawn in a terminal, else one line each\n"
               "  close ID     end it for its client; for whoever opened it, and the role admin\n"
               "example: brrctl sessions observe 6f1c2a90b4d7e35f8812c6aa01d94e7b",
               .verbs = sessions_verbs);
