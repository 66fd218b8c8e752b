/* score_driver: annotations on standard input, one line of score JSON per data set on standard output.
 * Lines, separated by tabs: "recording NAME SUBJECT DURATION", "ref ONSET END" and "hyp ONSET END" (of the newest recording),
 * "end" (of the data set). For tests/golden/test_score_golden.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "score/score.h"

enum { MAX_RECORDINGS = 64, MAX_EVENTS = 4096 };

struct slot {
    char name[64], subject[64];
    struct score_event ref[MAX_EVENTS], hyp[MAX_EVENTS];
};
static struct slot slots[MAX_RECORDINGS];
static struct score_recording recs[MAX_RECORDINGS];

static int report(int n) {
    struct score_report r;
    struct str text;
    struct json_writer w;
    struct err err;
    if (score_all(recs, n, &r, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    str_init(&text, 1 << 24);
    json_writer_init(&w, &text);
    score_report_json(&r, &w);
    puts(str_cstr(&text));
    str_done(&text);
    score_report_done(&r);
    return 0;
}

static int add_event(struct score_recording *rec, struct slot *slot, bool hyp, struct score_event event) {
    int *n = hyp ? &rec->n_hyp : &rec->n_ref;
    if (*n == MAX_EVENTS)
        return 1;
    (hyp ? slot->hyp : slot->ref)[(*n)++] = event;
    return 0;
}

int main(void) {
    char line[256];
    int n = 0;
    while (fgets(line, sizeof line, stdin)) {
        struct score_event e;
        double duration;
        if (n < MAX_RECORDINGS && sscanf(line, "recording\t%63s\t%63s\t%lf", slots[n].name, slots[n].subject, &duration) == 3) {
            struct slot *s = &slots[n];
            recs[n++] = (struct score_recording){s->name, s->subject, duration, s->ref, s->hyp, 0, 0, NULL, 0, NULL, 0};
        } else if (n && sscanf(line + 3, "\t%lf\t%lf", &e.onset_s, &e.end_s) == 2) {
            if (add_event(&recs[n - 1], &slots[n - 1], line[0] == 'h', e))
                return 2;
        } else if (!strncmp(line, "end", 3)) {
            if (report(n))
                return 1;
            n = 0;
        } else {
            fprintf(stderr, "not understood: %s", line);
            return 2;
        }
    }
    return 0;
}
