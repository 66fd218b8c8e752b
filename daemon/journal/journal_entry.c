#include "daemon/journal/journal_entry.h"

#include <string.h>

static const char *const names[JOURNAL_KINDS] = {
    [JOURNAL_ALARM_ON] = "alarm_on", [JOURNAL_ALARM_OFF] = "alarm_off", [JOURNAL_EVENT] = "event",     [JOURNAL_GAP] = "gap",
    [JOURNAL_QUALITY] = "quality",   [JOURNAL_OPENED] = "opened",       [JOURNAL_RESUMED] = "resumed", [JOURNAL_LOST] = "lost",
    [JOURNAL_RESTORED] = "restored", [JOURNAL_ENDED] = "ended"};

const char *journal_kind_name(enum journal_kind kind) { return names[kind]; }

bool journal_kind_find(const char *name, enum journal_kind *ret) {
    for (int i = 0; i < JOURNAL_KINDS; i++)
        if (!strcmp(names[i], name)) {
            *ret = (enum journal_kind)i;
            return true;
        }
    return false;
}
