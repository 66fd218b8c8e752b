/* Which channels carry an event: one chain that grows, artefacts, gaps, any chunks and snapshots; and the texts about
 * them. */

#include "base/rng.h"
#include "detect/focus.h"
#include "eeg/half.h"
#include "unit/cmocka_all.h"

enum { C = 6, COLUMNS = 8, SECONDS = 90, N = SECONDS * 256, FIRST = 1000 - 1000 % 256 + 77 };

static uint16_t rows[N * COLUMNS];

/* 6 Hz of 10 to 35 µV, and noise; from second 60 on channels 1 to 3 four times, 4 twice as large. Channel 5 is loose
 * all the time: now and then it jumps. */
static void make_rows(void) {
    static const float times[C] = {1, 4, 4, 4, 2, 1};
    struct rng rng;
    rng_init(&rng, 1, RNG_INIT, 0);
    for (int i = 0; i < N; i++)
        for (int c = 0; c < COLUMNS; c++) {
            float x = (float)((10 + 5 * c) * sin(i * 6 * 2 * M_PI / 256 + c) + 2 * rng_normal(&rng));
            x *= c < C && i >= 60 * 256 ? times[c] : 1;
            rows[i * COLUMNS + c] = half_from_f32(c == 5 && i / 256 % 7 == 0 && i % 32 < 16 ? 900 : x);
        }
}

static struct focus *heard(int64_t chunk, bool restore) {
    struct focus *w = focus_new(C);
    focus_start(w, FIRST);
    for (int64_t at = 0, n; at < N; at += n) {
        n = N - at < chunk ? N - at : chunk;
        assert_int_equal(focus_push(w, rows + at * COLUMNS, COLUMNS, n, false, NULL), 0);
        if (!restore)
            continue;
        OWNED(str_done) struct str state = str_of(1 << 20);
        focus_pack(w, &(struct packer){.to = &state});
        struct focus *other = focus_new(C);
        struct packer in = {.from = unpack_of(state.data, state.len)};
        focus_pack(other, &in);
        assert_true(unpack_done(&in.from));
        focus_free(w);
        w = other;
    }
    return w;
}

static int64_t second(int s) { return FIRST + s * 256; }

static void those_that_grew_are_named_in_any_chunks(void **state) {
    (void)state;
    make_rows();
    for (int way = 0; way < 3; way++) {
        OWNED_POINTER(focus_free) struct focus *w = heard(way == 0 ? N : way == 1 ? 77 : 300, way == 2);
        assert_int_equal(focus_of(w, second(60), second(80)), 0xE);
        assert_int_equal(focus_of(w, second(64), second(67)), 0xE);
        assert_int_equal(focus_of(w, second(30), second(50)), 0); /* nothing happens there */
        assert_int_equal(focus_of(w, second(60), second(60) + 200), 0);
        focus_forget(w, second(70));
        assert_int_equal(focus_of(w, second(60), second(70)), 0);
        assert_int_equal(focus_of(w, second(71), second(80)), 0xE);
    }
}

/* 6 Hz and noise; from second 60 on each channel is so many times as large. From second `loose` on the electrode between
 * channels 3 and 4 has noise of its own. */
static void make_loose(const float times[C], int loose) {
    struct rng rng;
    rng_init(&rng, 2, RNG_INIT, 0);
    for (int i = 0; i < N; i++) {
        const float noise = (i >= loose * 256 ? 300.0F : 0) * (float)rng_normal(&rng);
        for (int c = 0; c < COLUMNS; c++) {
            float x = (float)((10 + 5 * c) * sin(i * 6 * 2 * M_PI / 256 + 0.5 * c) + 2 * rng_normal(&rng));
            x = x * (c < C && i >= 60 * 256 ? times[c] : 1) + (c == 3 ? noise : c == 4 ? -noise : 0);
            rows[i * COLUMNS + c] = half_from_f32(x);
        }
    }
}

static void a_loose_electrode_names_nothing_and_hides_nobody(void **state) {
    (void)state;
    static const struct {
        float times[C];
        int loose;
        uint32_t want;
    } cases[] = {
        {{2.5F, 2.5F, 2.5F, 1, 1, 1}, 40, 0x7}, /* before the seizure, at its onset, in it */
        {{2.5F, 2.5F, 2.5F, 1, 1, 1}, 60, 0x7},
        {{2.5F, 2.5F, 2.5F, 1, 1, 1}, 64, 0x7},
        {{2.5F, 2.5F, 2.5F, 2.5F, 2.5F, 2.5F}, 60, 0x27},
        {{2.5F, 2.5F, 2.5F, 2.5F, 2.5F, 2.5F}, SECONDS, 0x3F},
        {{2.2F, 12, 12, 2.2F, 2.2F, 2.2F}, SECONDS, 0x6}, /* a seizure of one electrode, which others see a little */
        {{1, 1, 1, 1, 1, 1}, 60, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_loose(cases[i].times, cases[i].loose);
        OWNED_POINTER(focus_free) struct focus *w = heard(i % 2 ? 77 : N, i % 2);
        assert_int_equal(focus_of(w, second(60), second(80)), cases[i].want);
    }
}

static void a_gap_keeps_what_is_their_own_and_the_first_seconds_name_nobody(void **state) {
    (void)state;
    make_rows();
    OWNED_POINTER(focus_free) struct focus *w = focus_new(C);
    focus_start(w, 0);
    assert_int_equal(focus_push(w, rows + 60 * 256 * COLUMNS, COLUMNS, 4 * 256, false, NULL), 0);
    assert_int_equal(focus_of(w, 0, 4 * 256), 0); /* it begins in the seizure */
    focus_free(w);
    w = focus_new(C);
    focus_start(w, 0);
    assert_int_equal(focus_push(w, rows, COLUMNS, 40 * 256, false, NULL), 0);
    focus_start(w, 100 * 256);
    assert_int_equal(focus_push(w, rows + 60 * 256 * COLUMNS, COLUMNS, 20 * 256, false, NULL), 0);
    assert_int_equal(focus_of(w, 100 * 256, 120 * 256), 0xE);
    assert_int_equal(focus_of(w, 30 * 256, 110 * 256), 0xE);
    focus_start(w, 200 * 256);
    assert_int_equal(focus_push(w, rows + 60 * 256 * COLUMNS, COLUMNS, 20 * 256, true, NULL), 0); /* rows that are held */
    assert_int_equal(focus_of(w, 200 * 256, 220 * 256), 0);
}

static void a_state_that_cannot_be_is_refused(void **state) {
    (void)state;
    make_rows();
    OWNED_POINTER(focus_free) struct focus *w = heard(N, false);
    OWNED(str_done) struct str saved = str_of(1 << 20);
    focus_pack(w, &(struct packer){.to = &saved});
    for (size_t len = 0; len < saved.len; len++) {
        OWNED_POINTER(focus_free) struct focus *other = focus_new(C);
        struct packer in = {.from = unpack_of(saved.data, len)};
        assert_true(!focus_pack(other, &in) == (len < sizeof(int64_t)));
        assert_true(len < sizeof(int64_t) ? in.from.left == len : in.from.failed);
    }
    /* One of a version that did not look for pairs goes on with the next second. */
    const size_t pairs = (1 + C) * (sizeof(int64_t) + C * sizeof(float));
    const int64_t mark = -0x666f637573;
    memcpy(saved.data, &mark, sizeof mark);
    OWNED_POINTER(focus_free) struct focus *older = focus_new(C);
    struct packer from = {.from = unpack_of(saved.data, saved.len - pairs)};
    assert_true(focus_pack(older, &from) && unpack_done(&from.from));
    assert_int_equal(focus_of(older, second(60), second(80)), 0xE);
    assert_int_equal(focus_push(older, rows + 70 * 256 * COLUMNS, COLUMNS, 15 * 256, false, NULL), 0);
    assert_int_equal(focus_of(older, second(SECONDS + 1), second(SECONDS + 14)), 0xE);
    OWNED_POINTER(focus_free) struct focus *fewer = focus_new(C - 1);
    struct packer in = {.from = unpack_of(saved.data, saved.len)};
    focus_pack(fewer, &in);
    assert_true(in.from.failed);
}

static void lists_and_sides_follow_the_names(void **state) {
    (void)state;
    static const struct {
        const char *list, *side, *text;
    } cases[] = {
        {"", "", ""},
        {"all", "both", "all channels"},
        {"F7-T3,T3-T5", "left", "left: F7-T3, T3-T5"},
        {"F7-T3,T3-T5,Cz-Pz", "left", "left: F7-T3, T3-T5, Cz-Pz"},
        {"Fp2-F8,F8-T4,T4-T6,T6-O2,Fp2-F4,F4-C4", "right", "right: Fp2-F8, F8-T4, T4-T6, T6-O2 and 2 more"},
        {"Fp1-F3,Fp2-F4", "both", "both sides: Fp1-F3, Fp2-F4"},
        {"F3,C3,P3,F4", "left", "left: F3, C3, P3, F4"},
        {"F3,C3,F4", "both", "both sides: F3, C3, F4"},
        {"Fz-Cz", "midline", "midline: Fz-Cz"},
        {"Fp1-Fp2", "midline", "midline: Fp1-Fp2"},
        {"Fp1-Fz", "left", "left: Fp1-Fz"},
        {"EEG1,E2", "", "EEG1, E2"},
        {"F3,X17", "", "F3, X17"},
    };
    static const char *const names[] = {"F7-T3", "T3-T5", "Cz-Pz"};
    char list[SIDE_LIST], text[SIDE_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(side_of(cases[i].list), cases[i].side);
        side_text(cases[i].list, text);
        assert_string_equal(text, cases[i].text);
    }
    side_list(names, 3, 0x3, list);
    assert_string_equal(list, "F7-T3,T3-T5");
    side_list(names, 3, 0x7, list);
    assert_string_equal(list, "all");
    focus_list("bipolar-18", 0x3, list);
    assert_true(*list && !strcmp(side_of(list), "left"));
    focus_list("bipolar-18", 0, list);
    assert_string_equal(list, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_grew_are_named_in_any_chunks),
        cmocka_unit_test(a_loose_electrode_names_nothing_and_hides_nobody),
        cmocka_unit_test(a_gap_keeps_what_is_their_own_and_the_first_seconds_name_nobody),
        cmocka_unit_test(a_state_that_cannot_be_is_refused),
        cmocka_unit_test(lists_and_sides_follow_the_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
