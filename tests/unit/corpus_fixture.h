/* corpus_fixture: a small corpus of four patients with known windows, opened as a manifest (window 2 s, hop 1 s). */
#pragma once
#include "eeg_fixture.h"
#include "windows/manifest.h"

enum { CORPUS_WINDOW = 512, CORPUS_HOP = 256 };

static inline struct manifest_config corpus_config(const char *root, const char *cache) {
    return (struct manifest_config){.root = root,
                                    .cache_dir = cache,
                                    .frontend = {"referential-19", 50, {0.5, 120}, 2},
                                    .window = CORPUS_WINDOW,
                                    .hop = CORPUS_HOP,
                                    .labels = "auto",
                                    .unlabeled = "error",
                                    .workers = 2};
}

static inline void corpus_file(const char *root, const char *name, int seconds, const char *events) {
    char path[4300];
    snprintf(path, sizeof path, "%s/%s", root, name);
    struct fixture f = {fixture_referential, 19, 256, seconds, NULL, events};
    fixture_write(path, &f);
}

/* sub-01, sub-02: 60 s with a seizure of 10 s from 20.5 s on; sub-03: 60 s and 30 s without; sub-04: 20 s, all seizure. */
static inline void corpus_write(const char *root) {
    static const char *const seizure = FIXTURE_EVENTS "20.5\t10\tsz\tn/a\tn/a\tn/a\t60\n";
    corpus_file(root, "sub-01/sub-01_run-01_eeg.edf", 60, seizure);
    corpus_file(root, "sub-02/sub-02_run-01_eeg.edf", 60, seizure);
    corpus_file(root, "sub-03/sub-03_run-01_eeg.edf", 60, FIXTURE_EVENTS "0\t60\tbckg\tn/a\tn/a\tn/a\t60\n");
    corpus_file(root, "sub-03/sub-03_run-02_eeg.edf", 30, FIXTURE_EVENTS "0\t30\tbckg\tn/a\tn/a\tn/a\t30\n");
    corpus_file(root, "sub-04/sub-04_run-01_eeg.edf", 20, FIXTURE_EVENTS "0\t20\tsz\tn/a\tn/a\tn/a\t20\n");
}

/* A folder of its own for a test, to be removed with fixture_remove, with the corpus in it and the place of a cache. */
static inline void corpus_make(char folder[4096], char root[4200], char cache[4200]) {
    fixture_folder(folder, 4096);
    snprintf(root, 4200, "%s/data", folder);
    snprintf(cache, 4200, "%s/cache", folder);
    corpus_write(root);
}
