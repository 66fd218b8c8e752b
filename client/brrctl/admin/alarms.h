/* alarms: the options of `brrctl alarms`, which its files share. */
#pragma once
#include "client/brrctl/brrctl.h"

struct alarms_options {
    bool open, yes;
    const char *person, *silence, *since, *bed, *as, *output;
};
/* alarm_report.c. The Unix time that --since names, else twelve hours ago; false after printing an error. */
bool alarms_since(const struct arguments *o, int64_t *ret);

int alarms_report(const struct arguments *o);
int alarms_export(const struct arguments *o);
