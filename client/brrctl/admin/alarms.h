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

/* alarm_eeg.c: the EEG of onsets that the daemon keeps. */
struct Brr__V1__ListOnsetsResponse;
/* That of alarms since then, NULL after printing an error, unless the daemon has no such list: *ret_code is 0 then. */
struct Brr__V1__ListOnsetsResponse *alarms_onsets(const struct arguments *o, int64_t since_ms, int *ret_code);
/* For a file: other characters than letters, digits, _, - and . become -, and a . in front. */
void alarms_plain_name(char *name);
int alarms_eeg(const struct arguments *o);
int alarms_export_edf(const struct arguments *o, int64_t since_ms);
