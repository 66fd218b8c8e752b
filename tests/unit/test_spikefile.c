/* Files of injections and fired neurons: what was written is read again, numpy's headers are understood, and a wrong file is named
 * with its row. */
#include "unit/temp_dir.h"

#include "burst/spikefile.h"

enum { MOST = 64 };
struct seen {
    int64_t ticks[MOST], ids[MOST];
    int n, calls;
};

static void on_tick(void *ctx, const struct burst_frame *f) {
    struct seen *s = ctx;
    s->calls++;
    for (int64_t i = 0; i < f->fired && s->n < MOST; i++) {
        s->ticks[s->n] = (int64_t)f->tick;
        s->ids[s->n++] = f->ids[i];
    }
}

static void fired_neurons_are_read_as_they_were_written(void **state) {
    uint32_t first[] = {3, 7, 4000000000u}, second[] = {0};
    const struct burst_frame frames[] = {{.tick = 5, .ids = first, .fired = 3},
                                         {.tick = 6, .ids = NULL, .fired = 0},
                                         {.tick = 1000000000000, .ids = second, .fired = 1}};
    struct spikefile f;
    struct seen seen = {0};
    struct err err = {0};
    assert_int_equal(spikefile_open(&f, in_dir(state, "a.npy"), &err), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(spikefile_add(&f, &frames[i], &err), 0);
    assert_int_equal(spikefile_close(&f, &err), 0);
    assert_int_equal(spikefile_read_fired(in_dir(state, "a.npy"), on_tick, &seen, &err), 0);
    assert_int_equal(seen.n, 4);
    assert_int_equal(seen.calls, 2);
    const int64_t ticks[] = {5, 5, 5, 1000000000000}, ids[] = {3, 7, 4000000000, 0};
    assert_memory_equal(seen.ticks, ticks, sizeof ticks);
    assert_memory_equal(seen.ids, ids, sizeof ids);
}

static void write_text(void **state, const char *name, const char *text, size_t len) {
    assert_int_equal(fsio_write_atomic(in_dir(state, name), text, len, NULL), 0);
}

static void tables_are_read_too(void **state) {
    static const char text[] = "id\ttick\n9\t2\n1\t3\n2\t3\n", empty[] = "tick\tid\n";
    struct seen seen = {0};
    write_text(state, "a.tsv", text, sizeof text - 1);
    assert_int_equal(spikefile_read_fired(in_dir(state, "a.tsv"), on_tick, &seen, NULL), 0);
    const int64_t ticks[] = {2, 3, 3}, ids[] = {9, 1, 2};
    assert_int_equal(seen.n, 3);
    assert_memory_equal(seen.ticks, ticks, sizeof ticks);
    assert_memory_equal(seen.ids, ids, sizeof ids);
    seen = (struct seen){0};
    write_text(state, "b.tsv", empty, sizeof empty - 1);
    assert_int_equal(spikefile_read_fired(in_dir(state, "b.tsv"), on_tick, &seen, NULL), 0);
    assert_int_equal(seen.calls, 0);
}

/* A .npy file of one header and some rows. */
static void write_npy(void **state, int version, const char *header, const int64_t *values, size_t bytes) {
    char file[2048] = "\x93NUMPY";
    size_t len = strlen(header), at = version > 1 ? 12 : 10;
    file[6] = (char)version;
    file[8] = (char)(len & 255);
    file[9] = (char)(len >> 8);
    memcpy(file + at, header, len);
    memcpy(file + at + len, values, bytes);
    write_text(state, "x.npy", file, at + len + bytes);
}

static void headers_of_numpy_are_understood_and_others_refused(void **state) {
    static const struct {
        const char *header;
        int version;
        size_t bytes;
        const char *expected; /* in the message; NULL: it is read */
    } cases[] = {
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }      \n", 1, 32, NULL},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }\n", 2, 32, NULL},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (0, 2), }\n", 1, 0, NULL},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }\n", 1, 16, "int64"},
        {"{'descr': '<i8', 'fortran_order': True, 'shape': (2, 2), }\n", 1, 32, "C order"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }\n", 1, 32, "[n,2]"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 48, "[n,2]"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (-2, 2), }\n", 1, 32, "[n,2]"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999999999999999999999, 2), }\n", 1, 32, "[n,2]"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (576460752303423490, 2), }\n", 1, 32, "16 for each"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }\n", 1, 31, "16 for each"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (", 1, 0, "[n,2]"},
        {"", 1, 0, "[n,2]"},
    };
    static const int64_t rows[8] = {1, 5, 2, 4};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        struct seen seen = {0};
        write_npy(state, cases[i].version, cases[i].header, rows, cases[i].bytes);
        int rc = spikefile_read_fired(in_dir(state, "x.npy"), on_tick, &seen, &err);
        assert_int_equal(rc, cases[i].expected ? ERR_INVALID : 0);
        assert_true(!cases[i].expected || (strstr(err.message, cases[i].expected) && strstr(err.message, "x.npy")));
        assert_int_equal(seen.n, cases[i].expected ? 0 : cases[i].bytes / 16);
    }
    struct err err = {0};
    for (size_t len = 0; len < 12; len++) { /* shorter than any header */
        write_text(state, "x.npy", "\x93NUMPY\x02\x00\xff\xff\xff\xff", len);
        assert_int_equal(spikefile_read_fired(in_dir(state, "x.npy"), on_tick, NULL, &err), ERR_INVALID);
    }
    assert_int_equal(spikefile_read_fired(in_dir(state, "none.npy"), on_tick, NULL, &err), ERR_NOT_FOUND);
}

static void wrong_rows_are_named(void **state) {
    static const struct {
        int64_t rows[4];
        const char *expected;
    } cases[] = {{{1, 5, 1, 5}, "row 1 (tick 1, id 5)"},
                 {{2, 5, 1, 6}, "row 1 (tick 1, id 6)"},
                 {{1, 5, 1, 4}, "row 1 (tick 1, id 4)"},
                 {{0, 5, 1, 4}, "row 0 is tick 0"},
                 {{1, -1, 1, 4}, "id -1"},
                 {{1, 1, 1, 1ll << 32}, "id 4294967296"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        struct seen seen = {0};
        write_npy(state, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }\n", cases[i].rows, sizeof cases[i].rows);
        assert_int_equal(spikefile_read_fired(in_dir(state, "x.npy"), on_tick, &seen, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, cases[i].expected));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(fired_neurons_are_read_as_they_were_written),
        in_temp_dir(tables_are_read_too),
        in_temp_dir(headers_of_numpy_are_understood_and_others_refused),
        in_temp_dir(wrong_rows_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
