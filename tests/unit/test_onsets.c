/* onsets: the EEG around alarms in files: its samples, what is kept of which bed when there is too much, age, a volume that is
 * full, and names that lead nowhere. */
#include "daemon/live/onsets.h"

#include <sched.h>

#include "formats/eegfile.h"
#include "unit/temp_dir.h"

enum { RATE = 256, ROWS = 2 };
static const char session[] = "0123456789abcdef0123456789abcdef";
static const struct metric_family families[] = {COUNTER("brrd_onsets_total", "Files.", "result")};
static struct metrics *metrics;
static _Atomic int64_t passed_ms, step_ms; /* by all clocks; by which the wall clock was set */
static _Atomic enum { WELL, FULL, BROKEN, SILENT } volume;

static int64_t real_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) { return real_ms() + passed_ms; }
int64_t __wrap_trusted_boot_ms(void);
int64_t __wrap_trusted_boot_ms(void) { return __wrap_clock_ms(); }
int64_t __wrap_clock_wall_ms(void);
int64_t __wrap_clock_wall_ms(void) { return __wrap_clock_ms() + INT64_C(1764562000000) + step_ms; }
int64_t __wrap_fsio_free_bytes(const char *path);
int64_t __wrap_fsio_free_bytes(const char *path) {
    (void)path;
    return volume == FULL ? 1 << 20 : INT64_C(1) << 40;
}
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    while (volume == SILENT)
        sched_yield();
    errno = ENOSPC;
    return volume == BROKEN ? -1 : __real_fsync(fd);
}

static double counted(const char *result) { return metric_value(metrics_series(metrics, "brrd_onsets_total", result)); }

static struct onsets *start(void **state, int64_t max_bytes) {
    struct onsets *o = NULL;
    struct err err;
    if (!fsio_is_dir(in_dir(state, "onsets")))
        assert_int_equal(mkdir(in_dir(state, "onsets"), 0700), 0);
    metrics_free(metrics);
    metrics = metrics_new(families, 1, 8);
    const struct onsets_config config = {
        .results = *state, .max_bytes = max_bytes, .keep_ms = 24 * 3600 * INT64_C(1000), .metrics = metrics};
    if (onsets_start(&config, &o, &err))
        fail_msg("%s", err.message);
    return o;
}

/* seconds of a ring whose rows are noise. */
static struct eegring *ring_of(int seconds) {
    static const struct eegring_limits limits = {.samples = 120 * RATE, .max_bytes = 1 << 30};
    struct eegring *r = NULL;
    assert_int_equal(eegring_new("custom:Fp1,F3", &limits, &r, NULL), 0);
    for (int64_t s = 0; s < seconds; s++) {
        double uv[ROWS * RATE];
        for (int i = 0; i < ROWS * RATE; i++)
            uv[i] = (double)((s * 977 + i * 7919) % 400 - 200);
        eegring_put(r, uv, ROWS, RATE, s * RATE, NULL);
    }
    return r;
}

static struct journal_entry alarm_of(const char *principal, const char *bed, int64_t sample) {
    struct journal_entry e = {
        .kind = JOURNAL_ALARM_ON, .number = sample, .start_s = (double)sample / RATE, .value = 0.9, .live = true};
    e.received_ms = clock_wall_ms() / 1000 * 1000;
    str_copy(e.session, sizeof e.session, session);
    str_copy(e.principal, sizeof e.principal, principal);
    str_copy(e.client, sizeof e.client, bed);
    journal_alarm_id(session, sample, e.alarm);
    return e;
}

/* An alarm of the bed, in a stream of its own that then ends. */
static void alarm_on(struct onsets *o, const char *principal, const char *bed, int64_t sample) {
    struct eegring *r = ring_of(118);
    const struct journal_entry e = alarm_of(principal, bed, sample);
    onsets_add(o, &e, r);
    eegring_drop(r);
}

static void settle(double n) {
    for (int i = 0; counted("kept") + counted("lost") < n; i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static int files_of(void **state, const char *alarm, struct onset_files *ret) {
    assert_int_equal(onsets_list(*state, alarm, ret, NULL), 0);
    return ret->n;
}

/* How many files belong to the bed of this one. */
static int of_bed(const struct onset_files *files, uint32_t owner, uint32_t bed) {
    int n = 0;
    for (int i = 0; i < files->n; i++)
        n += files->list[i].owner == owner && files->list[i].bed == bed;
    return n;
}

/* 100 s of a stream, 30 s of them missing from 80 s on, F3 held from 50 s to 52 s; the alarm at 70 s. */
static void the_file_has_the_samples(void **state) {
    OWNED(onset_files_done) struct onset_files files = {0};
    OWNED_POINTER(eegfile_close) struct eegfile *edf = NULL;
    struct onsets *o = start(state, 1 << 30);
    struct eegring *r = ring_of(50);
    static float uv[120 * RATE];
    static int16_t want[120 * RATE];
    double two[ROWS * RATE] = {0};
    char path[ONSETS_PATH];
    struct stat st;
    assert_true(eegring_hold_rows(r, 2, 50 * RATE, 52 * RATE));
    for (int s = 50; s < 130; s = s == 79 ? 110 : s + 1) {
        two[s] = 80;
        eegring_put(r, two, ROWS, RATE, s * RATE, NULL);
    }
    struct journal_entry e = alarm_of("token:ana", "bed \x14\x15 7", 70 * RATE);
    str_copy(e.where, sizeof e.where, "left: F3");
    onsets_add(o, &e, r);
    settle(1);
    onsets_stop(o);
    assert_int_equal(files_of(state, e.alarm, &files), 1);
    assert_int_equal(onset_path(*state, files.list, path, NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct err err;
    if (eegfile_open(path, &edf, &err))
        fail_msg("%s", err.message);
    const struct eeg_info *info = eegfile_info(edf);
    assert_true(info->plus && !info->discontinuous && info->n_segments == 1 && info->n_repairs == 0);
    assert_int_equal(info->n_records, 120);
    assert_string_equal(info->signals[1].label, "F3");
    for (int row = 0; row < ROWS; row++) {
        assert_int_equal(eegfile_read(edf, &row, 1, (struct eeg_range){0, 120 * RATE}, (float *[]){uv}, &err), 0);
        eegring_copy(r, row, 10 * RATE, 120 * RATE, want);
        for (int i = 0; i < 120 * RATE; i++) {
            const bool measured = want[i] != EEGRING_NONE && want[i] != EEGRING_HELD;
            assert_true(fabsf(uv[i] - (measured ? (float)want[i] / 10 : 0)) < 0.01F);
        }
    }
    assert_int_equal(info->n_annotations, 3);
    assert_true(info->annotations[0].onset_s == 40 && info->annotations[0].duration_s == 2);
    assert_string_equal(info->annotations[0].text, "not measured: F3");
    assert_true(info->annotations[1].onset_s == 60 && isnan(info->annotations[1].duration_s));
    assert_non_null(strstr(info->annotations[1].text, "alarm of bed    7, probability 0.90, left: F3 (0123456789abcdef"));
    assert_true(info->annotations[2].onset_s == 70 && info->annotations[2].duration_s == 30);
    assert_string_equal(info->annotations[2].text, "not measured");
    eegring_drop(r);
}

static void a_storm_pushes_out_its_own(void **state) {
    OWNED(onset_files_done) struct onset_files files = {0};
    struct onsets *o = start(state, 16 << 20);
    for (int bed = 0; bed < 3; bed++) { /* three of each of the others */
        char name[16];
        str_format(name, sizeof name, "bed-%d", bed);
        for (int i = 0; i < 3; i++)
            alarm_on(o, bed ? "token:ana" : "token:bob", name, (60 + bed * 3 + i) * RATE);
    }
    settle(9);
    assert_int_equal(files_of(state, NULL, &files), 9);
    const struct onset_files before = files;
    for (int i = 0; i < 300; i++) {
        char name[16];
        str_format(name, sizeof name, "bed-x%d", i % 3 ? 0 : i); /* also under many names */
        alarm_on(o, "token:eve", name, 70 * RATE + i);
        settle(10 + i);
    }
    onsets_stop(o);
    files = (struct onset_files){0};
    int64_t bytes = 0;
    for (int i = files_of(state, NULL, &files); i--;)
        bytes += files.list[i].bytes;
    assert_true(bytes <= 16 << 20 && files.n > 60);
    for (int i = 0; i < before.n; i++)
        assert_int_equal(of_bed(&files, before.list[i].owner, before.list[i].bed), 3);
    assert_true(counted("removed") > 200 && counted("lost") == 0);
    free(before.list);
}

static void streams_and_alarms_are_bounded(void **state) {
    OWNED(onset_files_done) struct onset_files files = {0};
    struct onsets *o = start(state, 1 << 30);
    struct eegring *r = ring_of(80);
    for (int i = 0; i < 300; i++) {
        const struct journal_entry e = alarm_of("token:eve", "bed-x", 70 * RATE + i);
        onsets_add(o, &e, r);
    }
    struct journal_entry bad = alarm_of("token:eve", "bed-x", 70 * RATE);
    str_copy(bad.session, sizeof bad.session, "../../../etc/cron.d/x");
    onsets_add(o, &bad, r);
    settle(301);
    alarm_on(o, "token:ana", "", 65 * RATE); /* a stream without a name */
    settle(302);
    onsets_stop(o);
    assert_int_equal(files_of(state, NULL, &files), ONSETS_OF_STREAM + 1);
    assert_int_equal((int)counted("lost"), 300 - ONSETS_OF_STREAM + 1);
    eegring_drop(r);
}

/* Whoever reads a list takes an id for a text of printable characters. */
static void a_name_of_another_kind_is_no_file_of_an_alarm(void **state) {
    static const char *const names[] = {"1764562000000-00000000-00000000-\xff-1.edf", "1764562000000-00000000-00000000-a/1.edf",
                                        "1764562000000-00000000-00000000-a\n1.edf",   "1764562000000-00000000-00000000-.edf",
                                        "1764562000000-0000000-00000000-a-1.edf",     "x"};
    OWNED(onset_files_done) struct onset_files files = {0};
    struct onsets *o = start(state, 1 << 30);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[ONSETS_PATH];
        str_format(path, sizeof path, "%s/onsets/%s", (char *)*state, names[i]);
        assert_int_equal(fsio_mkdirs_above(path, NULL), 0);
        assert_int_equal(fsio_write_atomic(path, "x", 1, NULL), 0);
    }
    alarm_on(o, "token:ana", "bed-1", 100 * RATE);
    settle(1);
    onsets_stop(o);
    assert_int_equal(files_of(state, NULL, &files), 1);
    assert_int_equal((int)counted("kept"), 1);
}

/* An alarm that is on again has a file for each onset that the one before does not show well. */
static void the_longest_file_of_an_onset_stays(void **state) {
    OWNED(onset_files_done) struct onset_files first = {0}, then = {0};
    struct onsets *o = start(state, 1 << 30);
    alarm_on(o, "token:ana", "bed-1", 100 * RATE);
    settle(1);
    onsets_stop(o);
    assert_int_equal(files_of(state, NULL, &first), 1);
    o = start(state, 1 << 30);
    struct journal_entry e = alarm_of("token:ana", "bed-1", 100 * RATE);
    struct eegring *less = ring_of(105), *none = ring_of(30); /* of the stream after a restart */
    onsets_add(o, &e, less);
    onsets_add(o, &e, none);
    e.start_s = 90; /* the alarm is on again */
    onsets_add(o, &e, less);
    e.start_s = 60;
    onsets_add(o, &e, less);
    onsets_stop(o);
    eegring_drop(less);
    eegring_drop(none);
    assert_int_equal(files_of(state, e.alarm, &then), 1);
    assert_true(then.list[0].bytes == first.list[0].bytes && then.list[0].bytes > 70 * ROWS * RATE * 2);
    onset_files_done(&then);
    journal_alarm_id(session, 60 * RATE, e.alarm);
    assert_int_equal(files_of(state, e.alarm, &then), 1);
    assert_true(counted("kept") == 1 && counted("lost") == 0);
}

/* Clocks of the machine, 25 hours on; the thread looks once a second. */
static void a_day_passes(bool wall_alone) {
    *(wall_alone ? &step_ms : &passed_ms) += 25 * 3600 * INT64_C(1000);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL);
}

static void old_ones_go_when_the_clock_is_steady(void **state) {
    OWNED(onset_files_done) struct onset_files files = {0};
    struct onsets *o = start(state, 1 << 30);
    alarm_on(o, "token:ana", "bed-1", 100 * RATE);
    settle(1);
    onsets_stop(o);
    o = start(state, 0); /* none is written any more */
    alarm_on(o, "token:ana", "bed-1", 101 * RATE);
    a_day_passes(true);
    assert_true(counted("age") == 0);
    for (int i = 0; counted("age") == 0; i++) {
        assert_true(i < 20);
        a_day_passes(false);
    }
    onsets_stop(o);
    assert_true(counted("age") == 1 && counted("kept") == 0);
    assert_int_equal(files_of(state, NULL, &files), 0);
}

/* A full volume is said, loses what it loses, and takes the next; a silent one holds up nobody. */
static void a_volume_that_is_full_or_silent(void **state) {
    OWNED(onset_files_done) struct onset_files files = {0};
    struct onsets *o = start(state, 1 << 30);
    volume = FULL;
    alarm_on(o, "token:ana", "bed-1", 100 * RATE);
    volume = BROKEN;
    alarm_on(o, "token:ana", "bed-2", 100 * RATE + 1);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    assert_true(counted("kept") == 0 && counted("lost") == 0); /* tried again */
    volume = WELL;
    passed_ms += 10000; /* and so at once */
    settle(2);
    assert_int_equal((int)counted("kept"), 2);
    volume = SILENT;
    alarm_on(o, "token:ana", "bed-3", 100 * RATE + 2);
    struct eegring *many = ring_of(118);
    const int64_t began = real_ms();
    for (int i = 0; i < 2 * ONSETS_WAITING; i++) {
        const struct journal_entry e = alarm_of("token:ana", "bed-3", 110 * RATE + i);
        onsets_add(o, &e, many);
    }
    assert_true(real_ms() - began < 1000);
    volume = WELL;
    onsets_stop(o);
    assert_int_equal(files_of(state, NULL, &files), 2 + ONSETS_OF_STREAM + 1);
    assert_true(counted("lost") > 0);
    eegring_drop(many);
}

/* The volume answers when the stream has the minute before the onset no more. */
static void what_came_too_late_is_said(void **state) {
    struct onsets *o = start(state, 1 << 30);
    struct eegring *r = ring_of(75);
    const struct journal_entry e = alarm_of("token:ana", "bed-1", 70 * RATE);
    double uv[ROWS * RATE] = {0};
    volume = SILENT;
    onsets_add(o, &e, r);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    for (int64_t s = 75; s < 190; s++)
        eegring_put(r, uv, ROWS, RATE, s * RATE, NULL);
    volume = WELL;
    settle(2);
    onsets_stop(o);
    assert_true(counted("kept") == 1 && counted("lost") == 1);
    eegring_drop(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(the_file_has_the_samples),           in_temp_dir(a_storm_pushes_out_its_own),
        in_temp_dir(streams_and_alarms_are_bounded),     in_temp_dir(a_name_of_another_kind_is_no_file_of_an_alarm),
        in_temp_dir(the_longest_file_of_an_onset_stays), in_temp_dir(old_ones_go_when_the_clock_is_steady),
        in_temp_dir(a_volume_that_is_full_or_silent),    in_temp_dir(what_came_too_late_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
