#include "daemon/journal/journal_entry.h"

#include "base/pack.h"
#include "base/trusted_time.h"

enum { PACKED_VERSION = 2 /* 1 had no channels */ };

#define NAME(constant, name, words)  name,
#define WORDS(constant, name, words) words,
static const char *const names[] = {JOURNAL_KINDS_OF(NAME)}, *const in_words[] = {JOURNAL_KINDS_OF(WORDS)};
static const struct {
    const char *name, *words;
} offs[JOURNAL_OFFS] = {
    [JOURNAL_OFF_ENDED] = {"ended", "ended"},
    [JOURNAL_OFF_GAP] = {"gap", "samples are missing"},
    [JOURNAL_OFF_ELECTRODES] = {"electrodes", "electrodes came off"},
    [JOURNAL_OFF_CUT] = {"cut", "connection lost"},
    [JOURNAL_OFF_EXPIRED] = {"expired", "connection lost, and the client did not come back"},
    [JOURNAL_OFF_CLOSED] = {"closed", "the stream was closed"},
    [JOURNAL_OFF_FAILED] = {"failed", "the stream or the daemon failed"},
    [JOURNAL_OFF_UNKNOWN] = {"not known whether another daemon has it", "not known whether another daemon has it"}};

const char *journal_kind_name(enum journal_kind kind) { return names[kind]; }
const char *journal_kind_words(enum journal_kind kind) { return in_words[kind]; }

bool journal_kind_find(const char *name, enum journal_kind *ret) {
    const int i = STR_AMONG(name, names);
    if (i >= 0)
        *ret = (enum journal_kind)i;
    return i >= 0;
}

bool journal_kind_is_alarm(enum journal_kind kind) {
    return kind == JOURNAL_ALARM_ON || kind == JOURNAL_ALARM_OFF || kind >= JOURNAL_ENDED;
}

const char *journal_off_name(enum journal_off off) { return offs[off].name; }

const char *journal_off_words(const char *name) {
    for (int i = 0; i < JOURNAL_OFFS; i++)
        if (!strcmp(offs[i].name, name))
            return offs[i].words;
    return name;
}

void journal_alarm_id(const char *session, int64_t sample, char ret[JOURNAL_ALARM]) {
    str_format(ret, JOURNAL_ALARM, "%.32s-%lld", session, (long long)sample);
}

/* ---- as bytes ---- */

static void pack_entry(const struct journal_entry *e, struct str *out) {
    pack_text(out, journal_kind_name(e->kind));
    PACK(out, *e, number, received_ms, boot_ms, sample_ms, live, step, until_ms, on_ms, start_s, end_s, value);
    PACK(out, *e, session, principal, client, address, model, sha256, detail, alarm, person, where);
}

static void unpack_entry(struct unpack *in, bool same_boot, int64_t version, struct journal_entry *e) {
    char kind[32];
    *e = (struct journal_entry){0};
    unpack_text(in, kind, sizeof kind);
    unpack_require(in, journal_kind_find(kind, &e->kind));
    e->number = unpack_i64(in, -1, INT64_MAX);
    e->received_ms = unpack_i64(in, INT64_MIN, INT64_MAX);
    const int64_t boot_ms = unpack_i64(in, 0, INT64_MAX);
    e->boot_ms = same_boot ? boot_ms : 0;
    e->sample_ms = unpack_i64(in, INT64_MIN, INT64_MAX);
    e->live = unpack_bool(in);
    e->step = unpack_i64(in, 0, INT32_MAX);
    e->until_ms = unpack_i64(in, 0, INT64_MAX);
    e->on_ms = unpack_i64(in, 0, INT64_MAX);
    UNPACK(in, *e, start_s, end_s, value);
    UNPACK(in, *e, session, principal, client, address, model, sha256, detail, alarm, person);
    if (version > 1)
        unpack_text(in, e->where, sizeof e->where);
}

void journal_entries_pack(const struct journal_entry *list, int n, struct str *out) {
    char boot[TRUSTED_BOOT_ID];
    trusted_boot_id(boot);
    pack_i64(out, PACKED_VERSION);
    pack_text(out, boot);
    pack_i64(out, n);
    for (int i = 0; i < n; i++)
        pack_entry(&list[i], out);
}

int journal_entries_unpack(const void *data, size_t len, struct journal_entry *list, int most) {
    struct unpack in = unpack_of(data, len);
    char boot[TRUSTED_BOOT_ID], here[TRUSTED_BOOT_ID];
    trusted_boot_id(here);
    const int64_t version = unpack_i64(&in, 1, PACKED_VERSION);
    unpack_text(&in, boot, sizeof boot);
    const int n = (int)unpack_i64(&in, 0, most);
    for (int i = 0; i < n; i++)
        unpack_entry(&in, *here && !strcmp(boot, here), version, &list[i]);
    return unpack_done(&in) ? n : -1;
}
