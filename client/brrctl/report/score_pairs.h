/* score_pairs: the recordings of two files or two folders of labels and events, each with its reference and hypothesis, as `score`
 * and `benchmark` compare them. Notes about what is left out go to stderr. One thread. */
#pragma once

#include "eeg/label_rule.h"
#include "score/score.h"

struct stems;
struct score_pairs {
    const char *ref, *hyp;      /* set by the caller, as rule */
    char rule[LABEL_RULE_SIZE]; /* of the labels */
    bool quiet;                 /* set by the caller: no notes about labels, which were said before */
    struct stems *references, *hypotheses;
    char **recordings; /* the counted ones below ref (eeg/tree.h): paths and stems, sorted */
    int n_recordings;
    char inside[4096]; /* where hyp lies below ref, as "found/": its files are no references; "" elsewhere */
    bool directory;
    struct score_recording *items;
    int n, missing, unusable; /* recordings; of them without a hypothesis; with one that cannot be used */
    int own;                  /* references that brrd wrote */
    int others_alone;         /* references of other events alone (score_files.h) */
};
/* Fills items. NOT_FOUND: nothing to score; INVALID: a file and a folder, or names that are not clear. score_pairs_done also after
 * an error. */
int score_pairs_find(struct score_pairs *p, struct err *err);
void score_pairs_done(struct score_pairs *p);
