/* corpus_case: the corpus of corpus_fixture for the test that runs: set_up makes it, tear_down removes it. */
#pragma once
#include "unit/cmocka_all.h"

#include "corpus_fixture.h"

static char folder[4096], root[4200], cache[4200];

static int set_up(void **state) {
    (void)state;
    corpus_make(folder, root, cache);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(folder);
    return 0;
}

/* NULL: as corpus_config says. */
static struct manifest *open_corpus(const struct manifest_config *config) {
    const struct manifest_config usual = corpus_config(root, cache);
    struct manifest *m = NULL;
    struct err err = {0};
    if (manifest_open(config ? config : &usual, NULL, NULL, &m, &err))
        fail_msg("%s (%s)", err.message, err.cause);
    return m;
}
