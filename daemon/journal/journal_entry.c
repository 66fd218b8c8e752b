#include "daemon/journal/journal_entry.h"

#define NAME(constant, name, words)  name,
#define WORDS(constant, name, words) words,
static const char *const names[] = {JOURNAL_KINDS_OF(NAME)}, *const in_words[] = {JOURNAL_KINDS_OF(WORDS)};
static const char *const offs[JOURNAL_OFFS] = {
    [JOURNAL_OFF_ENDED] = "ended",           [JOURNAL_OFF_GAP] = "gap",
    [JOURNAL_OFF_ELECTRODES] = "electrodes", [JOURNAL_OFF_CUT] = "cut",
    [JOURNAL_OFF_EXPIRED] = "expired",       [JOURNAL_OFF_CLOSED] = "closed",
    [JOURNAL_OFF_FAILED] = "failed",         [JOURNAL_OFF_UNKNOWN] = "not known whether another daemon has it"};

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

const char *journal_off_name(enum journal_off off) { return offs[off]; }

void journal_alarm_id(const char *session, int64_t sample, char ret[JOURNAL_ALARM]) {
    str_format(ret, JOURNAL_ALARM, "%.32s-%lld", session, (long long)sample);
}
