/* alarms: the alarms of beds, and answers to them: acknowledge, silence, mark, note, standby; a test alarm. */

#include "client/brrctl/admin/alarms.h"

#include <fnmatch.h>

#include "base/principal.h"
#include "brr/v1/alarms.pb-c.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"

#define OPTIONS struct alarms_options
#define PERSON  TEXT("--person", person, "NAME", "your name, for the journal")
#define BED     TEXT("--bed", bed, "NAME", "only beds whose name is, or matches, NAME")
#define SINCE   TEXT("--since", since, "T", "only alarms since then: a time ago, such as 7d; default 12h")
static const struct argument list_rows[] = {
    FLAG("--open", open, "only alarms that are on or that nobody has acknowledged"),
    TEXT("--since", since, "T", "only alarms that were on since then: a time ago, such as 12h"),
    BED,
};
static const struct argument ack_rows[] = {FLAG("--yes", yes, "of BED: do not ask; acknowledge those that are printed"), PERSON};
static const struct argument silence_rows[] = {TEXT("--for", silence, "TIME", "for so long, at most 10m; default 2m"), PERSON};
static const struct argument answer_rows[] = {PERSON};
static const struct argument report_rows[] = {SINCE, BED};
static const struct argument export_rows[] = {
    SINCE,
    BED,
    CHOICE("--as", as, "labels|edf", "what to write"),
    OUTPUT("--output", output, "DIR", "folder of the files", .alias = "--out"),
};
static const struct argument eeg_rows[] = {OUTPUT("--output", output, "FILE.edf", "the file", .alias = "--out")};

static char *text(const char *borrowed) { return (char *)(uintptr_t)borrowed; }

/* ---- printing ---- */

static const char *state_of(const Brr__V1__BedAlarm *a) {
    if (a->test)
        return a->off_ms ? "test over" : "TEST";
    if (!a->live && !strcmp(a->kind, "alarm"))
        return a->off_ms ? "replay, over" : "replay, on";
    if (a->off_ms)
        return a->cut ? "cut in alarm" : "over";
    if (a->blind)
        return "ON, blind";
    return a->answered ? "on" : "ON";
}

/* The name that the person gave, else the caller's. */
static const char *author_name(const Brr__V1__AlarmAuthor *author) {
    return *author->person ? author->person : principal_words(author->by);
}

/* "acknowledged by Ana 2026-01-31 10:04:11 CET, false alarm, "chewing" (Ana 2026-01-31 10:05:20 CET)" */
static void put_answers(struct str *text, const Brr__V1__BedAlarm *a) {
    char at[32];
    if (a->answered)
        str_printf(text, "acknowledged by %s %s", author_name(a->answered), output_time(a->answered->at_ms, at, sizeof at));
    else if (a->open && a->live)
        str_printf(text, "nobody has answered%s", a->step ? " (escalated)" : "");
    if (*a->where)
        str_printf(text, "%sat the onset: %s", text->len ? ", " : "", a->where);
    if (*a->again)
        str_printf(text, "%s%s", text->len ? ", " : "", a->again);
    if (a->untold)
        str_printf(text, "%snobody is told, by a rule of the bed", text->len ? ", " : "");
    if (a->silent_until_ms)
        str_printf(text, ", silent until %s by %s", output_time(a->silent_until_ms, at, sizeof at),
                   a->silenced ? author_name(a->silenced) : "somebody");
    if (*a->mark)
        str_printf(text, "%s%s", text->len ? ", " : "",
                   !strcmp(a->mark, "true")    ? "true alarm"
                   : !strcmp(a->mark, "false") ? "false alarm"
                                               : a->mark);
    if (*a->note)
        str_printf(text, "%s\"%s\"", text->len ? ", " : "", a->note);
    if (*a->note && a->noted)
        str_printf(text, " (%s %s)", author_name(a->noted), output_time(a->noted->at_ms, at, sizeof at));
}

static void list_alarm(struct listing *l, const void *alarm) {
    const Brr__V1__BedAlarm *a = alarm;
    char on[32], length[32];
    OWNED(str_done) struct str answers = str_of(4096);
    /* A daemon of an earlier version does not say for how long. */
    const int64_t length_ms = a->length_ms ? a->length_ms : (a->off_ms ? a->off_ms : clock_wall_ms()) - a->on_ms;
    put_answers(&answers, a);
    listing_row(l, "%s|%s|%s|%s|%s|%s|%s", a->id, a->bed, a->kind, state_of(a), output_time(a->on_ms, on, sizeof on),
                output_duration((double)length_ms / 1000, length, sizeof length), str_cstr(&answers));
}

static const char titles[] = "alarm|bed|kind|state|began|for|answer",
                  fields[] =
                      "alarm=id kind bed session=session_id principal model live test on_ms off_ms why cut value start_s "
                      "answered(by person at_ms via) silent_until_ms silenced(by person at_ms via) blind untold length_ms status "
                      "step mark note where noted(by person at_ms via) open sound again";
static const struct brrctl_view one_view = {.json = fields, .titles = titles, .row = list_alarm};

static void swap(Brr__V1__BedAlarm **list, size_t a, size_t b) {
    Brr__V1__BedAlarm *const first = list[a];
    list[a] = list[b];
    list[b] = first;
}

static int list(const struct arguments *o) {
    const struct brrctl_view view = {
        .json = fields, .titles = titles, .row = list_alarm, .none = own(o)->open ? "no alarm is open" : "no alarm"};
    Brr__V1__ListAlarmsRequest in = BRR__V1__LIST_ALARMS_REQUEST__INIT;
    int code = 0;
    in.open = own(o)->open;
    if (own(o)->since && !alarms_since(o, &in.since_ms))
        return EXIT_USAGE;
    OWNED_ANSWER Brr__V1__ListAlarmsResponse *out = brrctl_call(o, "/brr.v1.Alarms/List", &in.base, &code);
    if (!out)
        return code;
    size_t n = 0;
    for (size_t i = 0; i < out->n_alarms; i++) /* the others, which are freed too, go behind them */
        if (!own(o)->bed || !strcmp(own(o)->bed, out->alarms[i]->bed) || !fnmatch(own(o)->bed, out->alarms[i]->bed, 0))
            swap(out->alarms, n++, i);
    brrctl_show_items(o, &view, (void *const *)out->alarms, n);
    if (out->left_out)
        fprintf(stderr, "brrctl: %lld more alarms are not shown; `brrctl journal --kind alarm_on` lists all\n",
                (long long)out->left_out);
    return 0;
}

/* ---- answers ---- */

static Brr__V1__AnswerAlarmRequest request_of(const struct arguments *o, const char *id, const char *action) {
    Brr__V1__AnswerAlarmRequest in = BRR__V1__ANSWER_ALARM_REQUEST__INIT;
    in.alarm_id = text(id);
    in.action = text(action);
    in.person = text(own(o)->person ? own(o)->person : "");
    in.via = text("brrctl");
    return in;
}

static int answer(const struct arguments *o, const char *action) {
    Brr__V1__AnswerAlarmRequest in = request_of(o, o->args[1], action);
    if (own(o)->silence && !str_to_duration_ms(own(o)->silence, &in.for_ms)) {
        fprintf(stderr, "brrctl: --for %s: expected a time such as 90s or 5m\n", own(o)->silence);
        return EXIT_USAGE;
    }
    if (!strcmp(action, "mark"))
        in.mark = text(o->args[2]);
    if (!strcmp(action, "note"))
        in.note = text(o->args[2]);
    return brrctl_show(o, "/brr.v1.Alarms/Answer", &in.base, &one_view);
}

static bool is_waiting(const Brr__V1__BedAlarm *a) {
    return !a->answered && a->open && (strcmp(a->kind, "alarm") != 0 ? !a->off_ms : a->live);
}

/* Asks whether to acknowledge the printed alarms. If not, *ret_code is the exit status. */
static bool acknowledges(const struct arguments *o, int *ret_code) {
    const int said = own(o)->yes ? 1 : brrctl_confirms("Acknowledge what is listed?");
    if (said > 0)
        return true;
    fprintf(stderr, "brrctl: nothing was acknowledged%s\n",
            said < 0 ? "; where there is no terminal to ask at, --yes acknowledges what is listed" : "");
    *ret_code = said < 0 ? EXIT_USAGE : EXIT_FAILED;
    return false;
}

static void print_acknowledged(const void *alarm) { printf("acknowledged %s\n", ((const Brr__V1__BedAlarm *)alarm)->id); }

/* These ids, so that an alarm that has begun since stays on. */
static int acknowledge_all(const struct arguments *o, Brr__V1__BedAlarm *const *alarms, size_t n) {
    static const struct brrctl_view view = {.json = fields, .print = print_acknowledged};
    int code = 0, failed = 0;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    for (size_t i = 0; client && i < n; i++) {
        struct brr_error err;
        const Brr__V1__AnswerAlarmRequest in = request_of(o, alarms[i]->id, "acknowledge");
        OWNED_ANSWER Brr__V1__BedAlarm *out = brrctl_ask(client, "/brr.v1.Alarms/Answer", &in.base, &err);
        if (out)
            brrctl_show_items(o, &view, (void *const *)&out, 1);
        else
            failed = brrctl_fail_call(&err);
    }
    return code ? code : failed;
}

/* An alarm, or what nobody has acknowledged of a bed of this name. */
static int acknowledge(const struct arguments *o) {
    Brr__V1__ListAlarmsRequest in = BRR__V1__LIST_ALARMS_REQUEST__INIT;
    int code = 0;
    size_t n = 0;
    in.open = true;
    in.bed = text(o->args[1]);
    OWNED_ANSWER Brr__V1__ListAlarmsResponse *out = brrctl_call(o, "/brr.v1.Alarms/List", &in.base, &code);
    if (!out)
        return code;
    in.open = false;
    OWNED_ANSWER Brr__V1__ListAlarmsResponse *over = out->n_alarms ? NULL : brrctl_call(o, "/brr.v1.Alarms/List", &in.base, &code);
    if (!out->n_alarms && (!over || !over->n_alarms)) /* no bed that had an alarm */
        return over ? answer(o, "acknowledge") : code;
    for (size_t i = 0; i < out->n_alarms; i++)
        if (is_waiting(out->alarms[i]))
            swap(out->alarms, n++, i);
    if (!o->json)
        brrctl_show_items(o, &(struct brrctl_view){.titles = titles, .row = list_alarm, .none = "all its alarms are acknowledged"},
                          (void *const *)out->alarms, n);
    fflush(stdout);
    return n && acknowledges(o, &code) ? acknowledge_all(o, out->alarms, n) : code;
}

static int silence(const struct arguments *o) { return answer(o, "silence"); }
static int mark(const struct arguments *o) { return answer(o, "mark"); }
static int note(const struct arguments *o) { return answer(o, "note"); }

static int standby(const struct arguments *o) {
    Brr__V1__StandbyRequest in = BRR__V1__STANDBY_REQUEST__INIT;
    int64_t for_ms = 0;
    int code = 0;
    char until[32];
    if (strcmp(o->args[2], "off") != 0 && (!str_to_duration_ms(o->args[2], &for_ms) || for_ms <= 0)) {
        fprintf(stderr, "brrctl: '%s' is no time; expected one such as 30m, or off\n", o->args[2]);
        return EXIT_USAGE;
    }
    in.bed = text(o->args[1]);
    in.until_ms = for_ms ? clock_wall_ms() + for_ms : 0;
    in.person = text(own(o)->person ? own(o)->person : "");
    in.via = text("brrctl");
    OWNED_ANSWER Brr__V1__StandbyResponse *out = brrctl_call(o, "/brr.v1.Alarms/Standby", &in.base, &code);
    if (!out)
        return code;
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "bed", o->args[1]);
        json_put_i64(w, "until_ms", out->until_ms);
        output_end(w);
    } else if (out->until_ms) {
        printf("%s is in standby until %s: no technical alarms\n", o->args[1], output_time(out->until_ms, until, sizeof until));
    } else {
        printf("%s is monitored\n", o->args[1]);
    }
    return 0;
}

static int test(const struct arguments *o) {
    Brr__V1__TestAlarmRequest in = BRR__V1__TEST_ALARM_REQUEST__INIT;
    in.bed = text(o->args[1]);
    return brrctl_show(o, "/brr.v1.Alarms/Test", &in.base, &one_view);
}

static const struct command_verb alarms_verbs[] = {
    {"list", "", ARGUMENTS(list_rows), list, 1},
    {"ack", "ALARM|BED", ARGUMENTS(ack_rows), acknowledge, 2},
    {"silence", "ALARM", ARGUMENTS(silence_rows), silence, 2},
    {"mark", "ALARM true|false|unclear", ARGUMENTS(answer_rows), mark, 3},
    {"note", "ALARM TEXT", ARGUMENTS(answer_rows), note, 3},
    {"standby", "BED 30m|off", ARGUMENTS(answer_rows), standby, 3},
    {"test", "BED", &arguments_none, test, 2},
    {"eeg", "ALARM", ARGUMENTS(eeg_rows), alarms_eeg, 2},
    {"report", "", ARGUMENTS(report_rows), alarms_report, 1},
    {"export", "", ARGUMENTS(export_rows), alarms_export, 1},
    {.name = NULL},
};

BRRCTL_COMMAND(
    alarms, "[list|ack|silence|mark|note|standby|test|eeg|report|export] [ALARM|BED] [...]", &arguments_none, NULL,
    "list the alarms of beds, and answer them",
    "  ack ALARM                    acknowledge: sound and escalation of this alarm end on all screens\n"
    "  ack BED [--yes]              lists the alarms of the bed that nobody has acknowledged, asks, and acknowledges "
    "these\n"
    "  silence ALARM [--for 2m]     no sound for so long, at most 10m, or until a new alarm\n"
    "  mark ALARM true|false|unclear\n"
    "  note ALARM TEXT              at most 200 bytes\n"
    "  standby BED 30m|off          not monitored for so long, at most 24h: no technical alarms\n"
    "  test BED                     a test alarm of 20 s on pages and hooks, which escalates until it is acknowledged\n"
    "  eeg ALARM --output FILE.edf  the EEG around its onset, where the daemon keeps it (journal.onsets); the whole id\n"
    "  report [--since 12h]         for each bed: alarms, marks, how long until somebody acknowledged\n"
    "  export --as labels --output DIR\n"
    "                               the marks as label files (events.tsv), one for each stream: of a true alarm each event "
    "that\n"
    "                               overlaps it is sz, and without an event its time is unknown; a false one is bckg; all "
    "other\n"
    "                               time is unknown. The column comment names the alarm\n"
    "  export --as edf --output DIR the EEG of each onset that is kept, as BED_ALARM.edf\n"
    "ALARM: the id that `brrctl alarms` and the page show, or its first characters, six or more, where one open alarm alone "
    "has them. Answers need the word `answer` in the token's line, or the "
    "role admin.\n"
    "example: brrctl alarms ack 6f1c2a90b4d7e35f8812c6aa01d94e7b-15360 --person 'Ana B'",
    .verbs = alarms_verbs);
