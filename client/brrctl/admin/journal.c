/* journal: what happened to every stream, from the daemon's disk: as a table, as JSON lines or as CSV; with --follow as it happens.
 */

#include "base/principal.h"
#include "brr/v1/journal.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"

enum { LAST = 100, PAGE = 500, TIME_SIZE = 32, DAY_MS = 24 * 3600 * 1000 };

struct journal_options {
    const char *bed, *session, *since, *until;
    struct argument_list kinds;
    int64_t last;
    bool follow, csv;
};
#define OPTIONS struct journal_options
static const struct argument journal_rows[] = {
    TEXT("--bed", bed, "NAME", "only streams whose client name is, or matches, NAME, such as 'icu-*'", .alias = "--client"),
    TEXT("--session", session, "ID", "only this session; the first characters of its id will do"),
    LIST("--kind", kinds, "KIND", "only entries of this kind; may be repeated"),
    TEXT("--since", since, "T", "received since T: 2h (ago), 2026-01-31, 2026-01-31T12:00 (local), …Z (UTC)"),
    TEXT("--until", until, "T", "received before T"),
    INTEGER("--last", last, "N", "the newest N entries; default 100, with --since all", 1, 1e9),
    FLAG("--follow", follow, "print entries as they are written, until Ctrl-C; with --since from then on"),
    FLAG("--csv", csv, "print comma-separated values with a header line"),
};

/* ---- times ---- */

/* "2026-01-31T12:00:00.250Z" */
static const char *utc(int64_t ms, char buf[TIME_SIZE]) {
    size_t n = ms > 0 ? strlen(clock_utc(ms, "%Y-%m-%dT%H:%M:%S", buf, TIME_SIZE)) : 0;
    str_format(buf + n, TIME_SIZE - n, n ? ".%03dZ" : "", (int)(ms % 1000));
    return buf;
}

/* "2h", "2026-01-31", "2026-01-31T12:00[:30][Z]" as Unix time in ms. */
static bool parse_time(const char *text, int64_t *ret) {
    static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};
    int64_t ago;
    if (str_to_duration_ms(text, &ago)) {
        *ret = clock_wall_ms() - ago;
        return true;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(text, formats[i], &tm);
        if (!end || (*end && strcmp(end, "Z") != 0))
            continue;
        *ret = (int64_t)(*end ? timegm(&tm) : mktime(&tm)) * 1000;
        return true;
    }
    fprintf(stderr, "brrctl: '%s' is no time; expected a time ago such as 2h, or 2026-01-31, 2026-01-31T12:00, 2026-01-31T12:00Z\n",
            text);
    return false;
}

/* ---- printing ---- */

static void print_json(const Brr__V1__JournalEntry *e) {
    struct json_writer *w = output_begin();
    char received[TIME_SIZE], sample[TIME_SIZE];
    json_put_str(w, "received", utc(e->received_ms, received));
    if (e->sample_ms)
        json_put_str(w, "recorded", utc(e->sample_ms, sample));
    else
        json_put_null(w, "recorded");
    output_fields(w, &e->base,
                  "id kind received_ms start_s end_s value client=client_name session=session_id principal address "
                  "model model_sha256 detail live alarm=alarm_id person step until_ms where");
    output_end(w);
}

/* A program for tables takes a cell that begins with one of these for a formula, unless an apostrophe stands before it. */
static bool is_formula(const char *text) { return *text && strchr("=+-@\t\r", *text); }

static void put_csv(const char *text, char end) {
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        putchar('"');
    if (is_formula(text))
        putchar('\'');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    if (quoted)
        putchar('"');
    putchar(end);
}

static void put_csv_number(double value) {
    if (isfinite(value))
        printf("%.10g", value);
    putchar(',');
}

static void print_csv(const Brr__V1__JournalEntry *e) {
    char time[TIME_SIZE];
    printf("%lld,%s,", (long long)e->id, e->kind);
    put_csv(utc(e->received_ms, time), ',');
    put_csv(utc(e->sample_ms, time), ',');
    put_csv_number(e->start_s);
    put_csv_number(e->end_s);
    put_csv_number(e->value);
    const char *const texts[] = {e->client_name, e->session_id, e->principal, e->address, e->model, e->model_sha256};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        put_csv(texts[i], ',');
    put_csv(e->detail, ',');
    printf("%d,", e->live);
    put_csv(e->alarm_id, ',');
    put_csv(e->person, ',');
    printf("%lld,", (long long)e->step);
    put_csv(utc(e->until_ms, time), ',');
    put_csv(e->where, '\n');
}

/* "0:01:02.50", "0:01:02.50-0:01:09.00", "-" */
static const char *where(const Brr__V1__JournalEntry *e, char *buf, size_t size) {
    char from[TIME_SIZE], to[TIME_SIZE];
    if (!isfinite(e->start_s))
        return "-";
    output_clock(e->start_s, from, sizeof from);
    str_format(buf, size, isfinite(e->end_s) ? "%s-%s" : "%s", from,
               output_clock(isfinite(e->end_s) ? e->end_s : 0, to, sizeof to));
    return buf;
}

/* "2026-01-31T12:00:00"; a date that is not of these days, as in recordings whose dates were shifted: "(2076-11-06)"; "-". */
static void recorded(const Brr__V1__JournalEntry *e, char ret[TIME_SIZE]) {
    char text[TIME_SIZE];
    utc(e->sample_ms, text);
    if (!*text)
        str_copy(ret, TIME_SIZE, "-");
    else if (llabs(e->sample_ms - e->received_ms) > DAY_MS)
        str_format(ret, TIME_SIZE, "(%.10s)", text);
    else
        str_format(ret, TIME_SIZE, "%.19s", text);
}

static void print_row(const Brr__V1__JournalEntry *e) {
    char time[TIME_SIZE], sample[TIME_SIZE], at[2 * TIME_SIZE], value[16];
    const char *person = principal_of_detail(e->person, e->detail);
    const bool later = *e->where && strcmp(e->kind, "alarm_on") != 0 && strcmp(e->kind, "event") != 0;
    const char *onset = later ? "at the onset: " : "";
    char until[2 * TIME_SIZE] = "";
    if (e->until_ms && strcmp(e->kind, "escalated") != 0) /* there: the end of the alarm */
        str_format(until, sizeof until, "until %s, ", output_time(e->until_ms, time, sizeof time));
    else if (!strcmp(e->kind, "standby"))
        str_copy(until, sizeof until, "over, ");
    recorded(e, sample);
    printf("%-25s %-20s %-16s %-9s %-23s %6s %-12s %-8.8s  %s%s%s%s%s%s%s\n", output_time(e->received_ms, time, sizeof time),
           sample, e->client_name, e->kind, where(e, at, sizeof at), output_probability(e->value, value), e->model, e->session_id,
           person, *person ? ": " : "", until, e->detail, *e->detail && *e->where ? ", " : "", onset, e->where);
}

static bool print_entry(void *ctx, const void *message) {
    const struct arguments *o = ctx;
    if (o->json)
        print_json(message);
    else if (own(o)->csv)
        print_csv(message);
    else
        print_row(message);
    fflush(stdout);
    return true;
}

static void print_head(const struct arguments *o) {
    if (own(o)->csv)
        puts("id,kind,received,recorded,start_s,end_s,value,client,session,principal,address,model,model_sha256,detail,live,alarm,"
             "person,step,until,where");
    else if (!o->json)
        printf("%-25s %-20s %-16s %-9s %-23s %6s %-12s %-8s  %s\n", "received", "recorded (UTC)", "client", "kind", "at", "value",
               "model", "session", "detail");
    fflush(stdout);
}

/* ---- calls ---- */

/* One page, or NULL after printing the error, which names the option and not the field of the message. */
static Brr__V1__ListJournalResponse *ask(const struct arguments *o, const Brr__V1__ListJournalRequest *in, int *ret_exit) {
    static const char field[] = "JournalFilter.kinds";
    struct brr_error err;
    brr_client *client = brrctl_connect(o, ret_exit);
    if (!client)
        return NULL;
    Brr__V1__ListJournalResponse *out = brrctl_ask(client, "/brr.v1.Journal/List", &in->base, &err);
    brr_disconnect(client);
    if (!out && err.code == BRR_INVALID && str_starts(err.message, field)) {
        fprintf(stderr, "brrctl: --kind%s\n", err.message + strlen(field));
        *ret_exit = EXIT_USAGE;
    } else if (!out) {
        *ret_exit = brrctl_fail_call(&err);
    }
    return out;
}

/* Every entry from the first one on, page by page. */
static int list_all(const struct arguments *o, Brr__V1__ListJournalRequest *in) {
    int code = 0;
    bool head = false;
    do {
        Brr__V1__ListJournalResponse *out = ask(o, in, &code);
        if (!out)
            return code;
        if (!head)
            print_head(o);
        head = true;
        for (size_t i = 0; i < out->n_entries; i++)
            print_entry((void *)(uintptr_t)o, out->entries[i]);
        in->cursor = out->cursor;
        brr__v1__list_journal_response__free_unpacked(out, NULL);
    } while (in->cursor);
    return 0;
}

/* The newest n entries, oldest first. */
static int list_last(const struct arguments *o, Brr__V1__ListJournalRequest *in, int64_t n) {
    OWNED_MEMORY Brr__V1__ListJournalResponse **pages = NULL;
    int64_t got = 0;
    int code = 0, n_pages = 0;
    in->newest_first = true;
    do {
        in->limit = n - got < PAGE ? (int32_t)(n - got) : PAGE;
        Brr__V1__ListJournalResponse **more = realloc(pages, (size_t)(n_pages + 1) * sizeof *pages);
        pages = more ? more : pages;
        if (!more || !(pages[n_pages] = ask(o, in, &code)))
            break;
        got += (int64_t)pages[n_pages]->n_entries;
        in->cursor = pages[n_pages++]->cursor;
    } while (in->cursor && got < n);
    if (n_pages)
        print_head(o);
    while (n_pages--) {
        for (size_t i = pages[n_pages]->n_entries; i-- > 0;)
            print_entry((void *)(uintptr_t)o, pages[n_pages]->entries[i]);
        brr__v1__list_journal_response__free_unpacked(pages[n_pages], NULL);
    }
    return code;
}

static int follow(const struct arguments *o, Brr__V1__JournalFilter *filter) {
    Brr__V1__FollowJournalRequest in = BRR__V1__FOLLOW_JOURNAL_REQUEST__INIT;
    Brr__V1__ListJournalRequest checked = BRR__V1__LIST_JOURNAL_REQUEST__INIT; /* of the filter, before the header */
    int code = 0;
    in.filter = checked.filter = filter;
    checked.limit = 1;
    OWNED_ANSWER Brr__V1__ListJournalResponse *out = ask(o, &checked, &code);
    if (!out)
        return code;
    print_head(o);
    return brrctl_follow(o, "/brr.v1.Journal/Follow", &in.base, print_entry, (void *)(uintptr_t)o);
}

static int cmd_journal(const struct arguments *o) {
    const struct journal_options *want = own(o);
    Brr__V1__JournalFilter filter = BRR__V1__JOURNAL_FILTER__INIT;
    Brr__V1__ListJournalRequest in = BRR__V1__LIST_JOURNAL_REQUEST__INIT;
    if ((want->since && !parse_time(want->since, &filter.since_ms)) || (want->until && !parse_time(want->until, &filter.until_ms)))
        return EXIT_USAGE;
    if (filter.until_ms && filter.until_ms <= filter.since_ms) {
        fprintf(stderr, "brrctl: --until %s is not after --since %s\n", want->until, want->since);
        return EXIT_USAGE;
    }
    if (o->json && want->csv) {
        fputs("brrctl: --json and --csv exclude each other\n", stderr);
        return EXIT_USAGE;
    }
    if (want->bed)
        filter.client = (char *)(uintptr_t)want->bed;
    if (want->session)
        filter.session = (char *)(uintptr_t)want->session;
    filter.kinds = (char **)(uintptr_t)want->kinds.items;
    filter.n_kinds = (size_t)want->kinds.n;
    in.filter = &filter;
    if (want->follow)
        return follow(o, &filter);
    if (want->since && want->last < 0)
        return list_all(o, &in);
    return list_last(o, &in, want->last < 0 ? LAST : want->last);
}

BRRCTL_COMMAND(
    journal, "", ARGUMENTS(journal_rows), cmd_journal,
    "show what happened to each stream: alarms, events, gaps, quality, connections",
    "From the daemon's disk, so also of streams that have ended and of times before a restart. Without --since the newest 100\n"
    "entries. Kinds: alarm_on alarm_off event gap quality opened resumed lost restored ended moved told answered\n"
    "escalated standby technical_on technical_off holder. `received` is when the daemon made the entry, in the time\n"
    "zone of this machine (UTC with --json and --csv); `recorded` is the recording's clock, where it says when it\n"
    "began, as UTC. A date in parentheses is more than a day from `received`. `at` counts from the first sample.\n"
    "example: brrctl journal --bed 'icu-*' --since 12h --kind alarm_on");
