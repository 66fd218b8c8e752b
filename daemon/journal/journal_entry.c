#include "daemon/journal/journal_entry.h"

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
