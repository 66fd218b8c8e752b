/* alarms: the alarms of beds, and answers to them: acknowledge, silence, mark, note, standby; a test alarm. */

#include "client/brrctl/admin/alarms.h"
#include "base/base.h"
#include "brr/v1/alarms.pb-c.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"

#define AT(field) offsetof(struct alarms_options, field)
static const struct argument rows[] = {
    FLAG("--open", open, "only alarms that are on or that nobody has acknowledged"),
    TEXT("--person", person, "NAME", "your name, for the journal"),
    TEXT("--for", silence, "TIME", "silence: for so long, at most 10m; default 2m"),
    TEXT("--since", since, "T", "only alarms that were on since then: a time ago, such as 12h; report and export: default 12h"),
    TEXT("--bed", bed, "NAME", "report, export: only beds whose name is, or matches, NAME"),
    CHOICE("--as", as, "labels", "export: what to write"),
    OUTPUT("--output", output, "DIR", "export: folder of the files", .alias = "--out"),
};
static const struct argument_table alarms_arguments = ARGUMENT_TABLE(rows, struct alarms_options);

static const struct alarms_options *own(const struct arguments *o) { return o->own; }
static char *text(const char *borrowed) { return (char *)(uintptr_t)borrowed; }

/* ---- printing ---- */

static void print_json(const Brr__V1__BedAlarm *a) {
    output_message(&a->base,
                   "alarm=id kind bed session=session_id principal model live test on_ms off_ms why cut value start_s answered(by "
                   "person at_ms via) silent_until_ms status step mark note open sound");
}

static const char *state_of(const Brr__V1__BedAlarm *a) {
    if (a->test)
        return a->off_ms ? "test over" : "TEST";
    if (a->off_ms)
        return a->cut ? "cut" : "over";
    return a->answered ? "on" : "ON";
}

/* "acknowledged by Ana 10:04:11, false alarm, "chewing"" */
static void put_answers(struct str *text, const Brr__V1__BedAlarm *a) {
    char at[32];
    if (a->answered)
        str_printf(text, "acknowledged by %s %s", *a->answered->person ? a->answered->person : a->answered->by,
                   output_time(a->answered->at_ms, at, sizeof at));
    else if (a->open && a->live)
        str_printf(text, "nobody has answered%s", a->step ? " (escalated)" : "");
    if (*a->mark)
        str_printf(text, "%s%s", text->len ? ", " : "",
                   !strcmp(a->mark, "true")    ? "true alarm"
                   : !strcmp(a->mark, "false") ? "false alarm"
                                               : a->mark);
    if (*a->note)
        str_printf(text, "%s\"%s\"", text->len ? ", " : "", a->note);
}

static void list_alarm(struct listing *l, const Brr__V1__BedAlarm *a) {
    char on[32], length[32];
    OWNED(str_done) struct str answers = str_of(4096);
    const int64_t end = a->off_ms ? a->off_ms : clock_wall_ms();
    put_answers(&answers, a);
    listing_row(l, "%s|%s|%s|%s|%s|%s|%s", a->id, a->bed, a->kind, state_of(a), output_time(a->on_ms, on, sizeof on),
                output_duration((double)(end - a->on_ms) / 1000, length, sizeof length), str_cstr(&answers));
}

static const char titles[] = "alarm|bed|kind|state|began|for|answer";

static int list(const struct arguments *o) {
    static const struct brrctl_method method = {"/brr.v1.Alarms/List", &brr__v1__list_alarms_response__descriptor, 0};
    Brr__V1__ListAlarmsRequest in = BRR__V1__LIST_ALARMS_REQUEST__INIT;
    int code = 0;
    in.open = own(o)->open;
    if (own(o)->since && !alarms_since(o, &in.since_ms))
        return EXIT_USAGE;
    OWNED_ANSWER Brr__V1__ListAlarmsResponse *out = brrctl_call(o, &method, &in.base, &code);
    if (!out)
        return code;
    if (!o->json && !out->n_alarms)
        puts(own(o)->open ? "no alarm is open" : "no alarm");
    struct listing listing;
    listing_begin(&listing, titles);
    for (size_t i = 0; i < out->n_alarms; i++)
        if (o->json)
            print_json(out->alarms[i]);
        else
            list_alarm(&listing, out->alarms[i]);
    listing_end(&listing);
    if (out->left_out)
        fprintf(stderr, "brrctl: %lld older alarms are not shown; `brrctl journal --kind alarm_on` lists all\n",
                (long long)out->left_out);
    return 0;
}

/* ---- answers ---- */

static int show(const struct arguments *o, const struct brrctl_method *method, const ProtobufCMessage *in) {
    int code = 0;
    OWNED_ANSWER Brr__V1__BedAlarm *out = brrctl_call(o, method, in, &code);
    if (!out)
        return code;
    struct listing listing;
    listing_begin(&listing, titles);
    if (o->json)
        print_json(out);
    else
        list_alarm(&listing, out);
    listing_end(&listing);
    return 0;
}

/* The number of plain words of a verb; false after printing what is expected. */
static bool has_words(const struct arguments *o, int n, const char *words) {
    if (o->n_args == n)
        return true;
    fprintf(stderr, "brrctl: expected `brrctl alarms %s %s`\n", o->args[0], words);
    return false;
}

static int answer(const struct arguments *o, const char *action, int n, const char *words) {
    static const struct brrctl_method method = {"/brr.v1.Alarms/Answer", &brr__v1__bed_alarm__descriptor, 0};
    Brr__V1__AnswerAlarmRequest in = BRR__V1__ANSWER_ALARM_REQUEST__INIT;
    if (!has_words(o, n, words))
        return EXIT_USAGE;
    if (own(o)->silence && !str_to_duration_ms(own(o)->silence, &in.for_ms)) {
        fprintf(stderr, "brrctl: --for %s: expected a time such as 90s or 5m\n", own(o)->silence);
        return EXIT_USAGE;
    }
    in.alarm_id = text(o->args[1]);
    in.action = text(action);
    in.person = text(own(o)->person ? own(o)->person : "");
    in.via = text("brrctl");
    if (!strcmp(action, "mark"))
        in.mark = text(o->args[2]);
    if (!strcmp(action, "note"))
        in.note = text(o->args[2]);
    return show(o, &method, &in.base);
}

static int acknowledge(const struct arguments *o) { return answer(o, "acknowledge", 2, "ALARM"); }
static int silence(const struct arguments *o) { return answer(o, "silence", 2, "ALARM [--for 2m]"); }
static int mark(const struct arguments *o) { return answer(o, "mark", 3, "ALARM true|false|unclear"); }
static int note(const struct arguments *o) { return answer(o, "note", 3, "ALARM TEXT"); }

static int standby(const struct arguments *o) {
    static const struct brrctl_method method = {"/brr.v1.Alarms/Standby", &brr__v1__standby_response__descriptor, 0};
    Brr__V1__StandbyRequest in = BRR__V1__STANDBY_REQUEST__INIT;
    int64_t for_ms = 0;
    int code = 0;
    char until[32];
    if (!has_words(o, 3, "BED 30m|off"))
        return EXIT_USAGE;
    if (strcmp(o->args[2], "off") != 0 && (!str_to_duration_ms(o->args[2], &for_ms) || for_ms <= 0)) {
        fprintf(stderr, "brrctl: '%s' is no time; expected one such as 30m, or off\n", o->args[2]);
        return EXIT_USAGE;
    }
    in.bed = text(o->args[1]);
    in.until_ms = for_ms ? clock_wall_ms() + for_ms : 0;
    in.person = text(own(o)->person ? own(o)->person : "");
    in.via = text("brrctl");
    OWNED_ANSWER Brr__V1__StandbyResponse *out = brrctl_call(o, &method, &in.base, &code);
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
    static const struct brrctl_method method = {"/brr.v1.Alarms/Test", &brr__v1__bed_alarm__descriptor, 0};
    Brr__V1__TestAlarmRequest in = BRR__V1__TEST_ALARM_REQUEST__INIT;
    if (!has_words(o, 2, "BED"))
        return EXIT_USAGE;
    in.bed = text(o->args[1]);
    return show(o, &method, &in.base);
}

static int report(const struct arguments *o) { return has_words(o, 1, "[--since 12h]") ? alarms_report(o) : EXIT_USAGE; }
static int export_labels(const struct arguments *o) {
    return has_words(o, 1, "--as labels --output DIR") ? alarms_export(o) : EXIT_USAGE;
}

static int list_verb(const struct arguments *o) {
    if (o->n_args < 2)
        return list(o);
    fprintf(stderr, "brrctl: unexpected argument '%s'; expected `brrctl alarms [--open]`\n", o->args[1]);
    return EXIT_USAGE;
}

static int cmd_alarms(const struct arguments *o) {
    static const struct {
        const char *name;
        int (*run)(const struct arguments *o);
    } verbs[] = {{"list", list_verb},  {"ack", acknowledge}, {"silence", silence}, {"mark", mark},           {"note", note},
                 {"standby", standby}, {"test", test},       {"report", report},   {"export", export_labels}};
    const char *verb = o->n_args ? o->args[0] : "list";
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, verb))
            return verbs[i].run(o);
    const char *nearest = arguments_nearest(verb, &verbs[0].name, sizeof verbs / sizeof *verbs, sizeof *verbs);
    fprintf(stderr, "brrctl: unknown alarms command '%s'; %s%s%s\n", verb, nearest ? "did you mean " : "see `brrctl alarms --help`",
            nearest ? nearest : "", nearest ? "?" : "");
    return EXIT_USAGE;
}

const struct command command_alarms = {
    .name = "alarms",
    .words = "[list|ack|silence|mark|note|standby|test|report|export] [ALARM|BED] [...]",
    .options = &alarms_arguments,
    .summary = "list the alarms of beds, and answer them",
    .run = cmd_alarms,
    .max_args = 3,
    .details = "  ack ALARM                    acknowledge: sound and escalation of this alarm end on all screens\n"
               "  silence ALARM [--for 2m]     no sound for so long, at most 10m, or until a new alarm\n"
               "  mark ALARM true|false|unclear\n"
               "  note ALARM TEXT              at most 200 bytes\n"
               "  standby BED 30m|off          not monitored for so long, at most 24h: no technical alarms\n"
               "  test BED                     a test alarm of 20 s on pages and hooks, which escalates until it is acknowledged\n"
               "  report [--since 12h]         for each bed: alarms, marks, how long until somebody acknowledged\n"
               "  export --as labels --output DIR\n"
               "                               the marks as label files (events.tsv), one for each stream: true is sz over the "
               "event that\n"
               "                               overlaps the alarm, false is bckg, all other time is unknown\n"
               "ALARM: the id that `brrctl alarms` and the page show. Answers need the word `answer` in the token's line, or the "
               "role admin.\n"
               "example: brrctl alarms ack 6f1c2a90b4d7e35f8812c6aa01d94e7b-15360 --person 'Ana B'",
};
