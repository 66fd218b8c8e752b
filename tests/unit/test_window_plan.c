/* A recording planned from its header against the same recording built from its samples. */

#include "eeg/frontend.h"
#include "eeg_fixture.h"
#include "formats/eegfile.h"
#include "skip.h"
#include "store/cache.h"
#include "store/mirror.h"
#include "unit/cmocka_all.h"
#include "windows/loader.h"
#include "windows/mirrored.h"
#include "windows/recording.h"

static char folder[4096], cache[4200];

static int set_up(void **state) {
    (void)state;
    fixture_folder(folder, sizeof folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(folder);
    return 0;
}

static struct window_build request(const char *edf) {
    return (struct window_build){.recording_path = edf,
                                 .cache_dir = cache,
                                 .frontend = {"referential-19", 50, {0.5, 120}, 2},
                                 .labels = "auto",
                                 .unlabeled = "background"};
}

static void same_spans(const struct window_span *a, int n_a, const struct window_span *b, int n_b) {
    assert_int_equal(n_a, n_b);
    for (int i = 0; i < n_a; i++) {
        assert_int_equal(a[i].first, b[i].first);
        assert_int_equal(a[i].end, b[i].end);
    }
}

static void same_facts(const struct recording *planned, const struct recording *built) {
    struct recording_info a, b;
    recording_info(planned, &a);
    recording_info(built, &b);
    assert_int_equal(a.channels, b.channels);
    assert_int_equal(a.samples, b.samples);
    assert_true(a.duration_s == b.duration_s);
    assert_int_equal(a.labelled, b.labelled);
    assert_string_equal(a.label_source, b.label_source);
    same_spans(a.segments, a.n_segments, b.segments, b.n_segments);
    same_spans(a.held, a.n_held, b.held, b.n_held);
    same_spans(a.seizures, a.n_seizures, b.seizures, b.n_seizures);
}

/* Plans, builds and compares; the planned recording takes its samples. Returns whether both worked. */
static bool compare(const struct window_build *b) {
    struct recording *planned = NULL, *built = NULL;
    char path[4096];
    bool skipped = true;
    struct err err = {0}, plan_err = {0};
    int build_rc = window_build(b, path, sizeof path, &skipped, &err);
    int plan_rc = window_plan(b, &planned, &skipped, &plan_err);
    if (build_rc != plan_rc)
        fail_msg("%s: build %d (%s; %s), plan %d (%s; %s)", b->recording_path, build_rc, err.message, err.cause, plan_rc,
                 plan_err.message, plan_err.cause);
    if (plan_rc)
        return false;
    assert_false(recording_ready(planned));
    assert_int_equal(recording_open(path, &built, &err), 0);
    assert_string_equal(recording_key(planned), recording_key(built));
    same_facts(planned, built);
    assert_string_equal(recording_mislabelled(planned), "");
    assert_int_equal(recording_load(planned, &err), 0);
    assert_true(recording_ready(planned));
    assert_string_equal(recording_mislabelled(planned), recording_mislabelled(built));
    struct recording_info info;
    recording_info(built, &info);
    for (int s = 0; s < info.n_segments; s++) {
        int64_t rows = info.segments[s].end - info.segments[s].first, first = info.segments[s].first;
        assert_memory_equal(recording_rows(planned, s, first), recording_rows(built, s, first),
                            (size_t)(rows * info.channels) * sizeof(uint16_t));
    }
    recording_close(planned);
    recording_close(built);
    return true;
}

static void the_plan_says_what_the_samples_will_say_whatever_rate_and_gaps(void **state) {
    (void)state;
    static const int rates[] = {100, 200, 250, 256, 300, 512, 1000};
    static const double onsets[][8] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                       {0, 1, 3, 4, 6.5, 7.5, 9, 10},  /* short gaps: held over */
                                       {0, 1, 12, 13, 40, 41, 42, 43}, /* long gaps: new segments */
                                       {0, 1.7, 2.7, 5.703, 6.8, 30.013, 31.1, 77.77},
                                       {0, 3, 6, 9, 12.1, 15, 18.003, 21}};
    static const double fills[] = {0, 0.5, 2};
    char edf[4200];
    int n = 0;
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
        for (size_t o = 0; o < sizeof onsets / sizeof *onsets; o++)
            for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
                snprintf(edf, sizeof edf, "%s/data/sub-%02d_eeg.edf", folder, n++);
                fixture_write(edf, &(struct fixture){fixture_referential, 19, rates[r], 8, onsets[o],
                                                     FIXTURE_EVENTS "1.25\t3.5\tsz\tn/a\tn/a\tn/a\t8\n"});
                struct window_build b = request(edf);
                b.frontend.fill_gap_s = fills[f];
                assert_true(compare(&b));
            }
}

/* The channels of the fixture are unrelated, so that no loop of a double banana closes. */
static void channels_that_contradict_each_other_are_told_once_when_the_samples_are_read(void **state) {
    (void)state;
    const char *const *names;
    char edf[4200];
    int n = 0;
    struct err err = {0};
    struct recording *planned = NULL;
    bool skipped = false;
    assert_int_equal(montage_channels("bipolar-18", &names, &n, &err), 0);
    snprintf(edf, sizeof edf, "%s/data/sub-77_eeg.edf", folder);
    fixture_write(edf, &(struct fixture){names, n, 256, 8, NULL, NULL});
    struct window_build b = request(edf);
    b.frontend.montage = "bipolar-18";
    assert_true(compare(&b));
    assert_int_equal(window_plan(&b, &planned, &skipped, &err), 0);
    assert_string_equal(recording_tell_mislabelled(planned), "");
    assert_int_equal(recording_load(planned, &err), 0);
    assert_non_null(strstr(recording_mislabelled(planned), "the loop of the left chains does not close"));
    assert_string_equal(recording_tell_mislabelled(planned), recording_mislabelled(planned));
    assert_string_equal(recording_tell_mislabelled(planned), "");
    uint16_t first[18];
    memcpy(first, recording_rows(planned, 0, 300), sizeof first);
    recording_unload(planned);
    assert_false(recording_ready(planned));
    assert_non_null(strstr(recording_mislabelled(planned), "does not close")); /* still known */
    assert_int_equal(recording_load(planned, &err), 0);
    assert_memory_equal(recording_rows(planned, 0, 300), first, sizeof first);
    recording_close(planned);
    montage_channels_free(names);
}

/* Every file of the optional folder: the same facts, or the same error. */
static void the_plan_says_what_real_files_hold(void **state) {
    (void)state;
    static const char *const parts[] = {"chbmit", "format", "headers"};
    static const char *const montages[] = {"referential-19", "bipolar-18"};
    char base[4096], path[4500];
    int planned = 0;
    if (!fixture_real("", base, sizeof base))
        skip_without_eeg();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s%s", base, parts[i]);
        DIR *dir = opendir(path);
        assert_non_null(dir);
        for (struct dirent *e; (e = readdir(dir));)
            for (size_t m = 0; m < 2 && (str_ends(e->d_name, ".edf") || str_ends(e->d_name, ".bdf")); m++) {
                snprintf(path, sizeof path, "%s%s/%s", base, parts[i], e->d_name);
                struct window_build b = request(path);
                b.frontend.montage = montages[m];
                planned += compare(&b);
            }
        closedir(dir);
    }
    assert_true(planned > 30);
}

/* Everything below a folder as a mirror that has the heads. */
struct mirrored {
    struct store *store;
    struct cache *cache;
    struct mirror *mirror;
};

static bool go_on(void *ctx, const struct mirror_progress *p) {
    (void)ctx, (void)p;
    return true;
}

static void open_mirrored(struct mirrored *s, const char *source, const char *name) {
    char url[4300], objects[4300], tree[4300];
    struct err err = {0};
    snprintf(url, sizeof url, "file://%s", source);
    snprintf(objects, sizeof objects, "%s/%s-objects", folder, name);
    snprintf(tree, sizeof tree, "%s/%s-tree", folder, name);
    assert_int_equal(store_open(&(struct store_config){.url = url}, &s->store, &err), 0);
    assert_int_equal(cache_open(objects, NULL, 1 << 30, &s->cache, &err), 0);
    const struct mirror_config config = {.rules = &mirrored_recordings,
                                         .store = s->store,
                                         .cache = s->cache,
                                         .prefix = "",
                                         .directory = tree,
                                         .head_bytes = 16 << 10};
    assert_int_equal(mirror_open(&config, go_on, NULL, &s->mirror, &err), 0);
}

static void close_mirrored(struct mirrored *s) {
    mirror_close(s->mirror);
    cache_close(s->cache);
    store_close(s->store);
}

/* Cache entries: heads, labels, and what has been taken whole. */
static int64_t entries(const struct mirrored *s) {
    struct cache_stats stats;
    cache_stats(s->cache, &stats);
    return stats.entries;
}

/* A file planned and loaded from the mirror is what it is from the folder, or the same error. *ret_whole: planning took all of it.
 */
static bool compare_mirrored(const struct mirrored *s, const struct window_build *local, const char *name, bool *ret_whole) {
    char tree[4500];
    struct recording *here = NULL, *there = NULL;
    struct window_build request = *local;
    struct err err = {0}, other = {0};
    bool skipped;
    snprintf(tree, sizeof tree, "%s/%s", mirror_directory(s->mirror), name);
    request.recording_path = tree;
    request.mirror = s->mirror;
    int64_t before = entries(s);
    int here_rc = window_plan(local, &here, &skipped, &err), there_rc = window_plan(&request, &there, &skipped, &other);
    *ret_whole = entries(s) != before;
    if (here_rc != there_rc)
        fail_msg("%s: %d (%s; %s), mirrored %d (%s; %s)", name, here_rc, err.message, err.cause, there_rc, other.message,
                 other.cause);
    if (here_rc)
        return false;
    same_facts(there, here);
    assert_int_equal(recording_load(there, &err), 0);
    assert_int_equal(recording_load(here, &err), 0);
    struct recording_info info;
    recording_info(here, &info);
    for (int i = 0; i < info.n_segments; i++)
        assert_memory_equal(recording_rows(there, i, info.segments[i].first), recording_rows(here, i, info.segments[i].first),
                            (size_t)((info.segments[i].end - info.segments[i].first) * info.channels) * sizeof(uint16_t));
    recording_close(here);
    recording_close(there);
    return true;
}

static void the_head_of_a_mirrored_recording_is_enough_to_plan_it_unless_it_has_gaps(void **state) {
    (void)state;
    static const double gaps[] = {0, 1, 2, 3, 14, 15, 16, 17, 18, 19};
    static const char *const names[] = {"plain_eeg.edf", "gaps_eeg.edf", "unlabelled_eeg.edf", "broken_eeg.edf"};
    static const bool whole[] = {false, true, true, true}; /* the labels of the third would be its annotations */
    char source[4200], path[4300];
    struct mirrored s;
    snprintf(source, sizeof source, "%s/mirrored", folder);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", source, names[i]);
        fixture_write(path, &(struct fixture){fixture_referential, 19, 256, 10, i == 1 ? gaps : NULL,
                                              i == 2 ? NULL : FIXTURE_EVENTS "1.25\t3.5\tsz\tn/a\tn/a\tn/a\t8\n"});
    }
    char junk[20000];
    memset(junk, 'x', sizeof junk);
    snprintf(path, sizeof path, "%s/%s", source, names[3]);
    assert_int_equal(fsio_write_atomic(path, junk, sizeof junk, NULL), 0);
    open_mirrored(&s, source, "mirrored");
    for (int i = 0; i < 4; i++) {
        bool took = false;
        snprintf(path, sizeof path, "%s/%s", source, names[i]);
        struct window_build local = request(path);
        assert_int_equal(compare_mirrored(&s, &local, names[i], &took), i != 3);
        assert_int_equal(took, whole[i]);
    }
    struct cache_stats stats;
    cache_stats(s.cache, &stats);
    assert_int_equal(stats.pinned, 4 + 2); /* heads and labels: whole files only while they are decoded */
    close_mirrored(&s);
}

static void real_files_give_the_same_through_a_mirror(void **state) {
    (void)state;
    static const char *const parts[] = {"chbmit", "format", "headers"};
    char base[4096], source[4300], path[4600];
    int same = 0, heads = 0;
    if (!fixture_real("", base, sizeof base))
        skip_without_eeg();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct mirrored s;
        snprintf(source, sizeof source, "%s%s", base, parts[i]);
        open_mirrored(&s, source, parts[i]);
        DIR *dir = opendir(source);
        assert_non_null(dir);
        for (struct dirent *e; (e = readdir(dir));) {
            if (!eegfile_named(e->d_name))
                continue;
            bool took = false;
            snprintf(path, sizeof path, "%s/%s", source, e->d_name);
            struct window_build local = request(path);
            local.frontend.montage = i ? "referential-19" : "bipolar-18";
            same += compare_mirrored(&s, &local, e->d_name, &took);
            heads += !took;
        }
        closedir(dir);
        close_mirrored(&s);
    }
    print_message("%d files the same through a mirror, %d planned from their heads\n", same, heads);
    assert_true(same > 15 && heads > 3);
}

static void windows_of_a_planned_recording_are_those_of_its_cache_file(void **state) {
    (void)state;
    enum { WINDOW = 1024 };
    static float x[WINDOW * 19], y[WINDOW * 19];
    uint8_t a[WINDOW], b[WINDOW];
    char edf[4200], path[4096];
    int64_t valid, valid_built;
    bool skipped;
    struct recording *planned = NULL, *built = NULL;
    snprintf(edf, sizeof edf, "%s/data/sub-90_eeg.edf", folder);
    fixture_write(edf, &(struct fixture){fixture_referential, 19, 256, 9, NULL, FIXTURE_EVENTS "1\t3\tsz\tn/a\tn/a\tn/a\t9\n"});
    const struct window_build w = request(edf);
    assert_int_equal(window_plan(&w, &planned, &skipped, NULL), 0);
    assert_int_equal(window_read(planned, 300, WINDOW, x, a, &valid, NULL), 0);
    assert_int_equal(window_build(&w, path, sizeof path, NULL, NULL), 0);
    assert_int_equal(recording_open(path, &built, NULL), 0);
    assert_int_equal(window_read(built, 300, WINDOW, y, b, &valid_built, NULL), 0);
    assert_int_equal(valid, valid_built);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(a, b, sizeof a);
    recording_close(planned);
    recording_close(built);
}

static void a_source_that_changed_after_planning_is_refused_with_the_mend(void **state) {
    (void)state;
    static float x[512 * 19];
    char edf[4200], events[4200];
    int64_t valid;
    bool skipped;
    struct recording *rec = NULL;
    struct err err = {0};
    snprintf(edf, sizeof edf, "%s/data/sub-91_eeg.edf", folder);
    struct fixture f = {fixture_referential, 19, 256, 9, NULL, FIXTURE_EVENTS "1\t3\tsz\tn/a\tn/a\tn/a\t9\n"};
    fixture_write(edf, &f);
    const struct window_build w = request(edf);
    assert_int_equal(window_plan(&w, &rec, &skipped, NULL), 0);
    f.events = FIXTURE_EVENTS "2\t3\tsz\tn/a\tn/a\tn/a\t9\n";
    fixture_write(edf, &f);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(window_read(rec, 0, 512, x, NULL, &valid, &err), ERR_DATA_LOSS);
        assert_non_null(strstr(err.message, "submit the job again"));
        assert_false(recording_ready(rec));
    }
    snprintf(events, sizeof events, "%s/data/sub-91_eeg.edf", folder);
    assert_int_equal(unlink(events), 0);
    assert_int_not_equal(recording_load(rec, &err), 0);
    recording_close(rec);
}

static int count_loaded(void *ctx, int64_t i, struct err *err) {
    ((int *)ctx)[i]++;
    return i == 2 ? err_set(err, ERR_RANGE, "the samples are of no use") : 0;
}

static void a_loader_readies_recordings_and_passes_over_what_it_cannot_read(void **state) {
    (void)state;
    enum { N = 4 };
    struct recording *recordings[N] = {0};
    int loaded[N] = {0};
    const struct loader_work work = {.recordings = recordings, .n = N, .workers = 2, .loaded = count_loaded, .ctx = loaded};
    char edf[4200];
    bool skipped;
    struct loader *l = NULL;
    for (int i = 0; i < N; i++) {
        snprintf(edf, sizeof edf, "%s/data/sub-9%d_eeg.edf", folder, i + 3);
        fixture_write(edf, &(struct fixture){fixture_referential, 19, 256, 20, NULL, NULL});
        const struct window_build w = request(edf);
        assert_int_equal(window_plan(&w, &recordings[i], &skipped, NULL), 0);
        if (i == 1)
            assert_int_equal(unlink(edf), 0);
    }
    assert_int_equal(loader_start(&work, &l, NULL), 0);
    for (int i = 0; i < N; i++) {
        assert_true(loader_wait(l, i, 60000));
        assert_int_equal(recording_ready(recordings[i]), i != 1);
        struct err err = {0};
        int rc = loader_result(l, i, &err);
        assert_int_equal(rc, i == 1 ? err.code : i == 2 ? ERR_RANGE : 0); /* 2: what was done with its samples failed */
        assert_int_equal(rc != 0, i == 1 || i == 2);
        assert_int_equal(loaded[i], i != 1);
    }
    assert_int_equal(loader_done(l), N);
    loader_stop(l);
    assert_int_equal(loader_start(&work, &l, NULL), 0); /* ended at once, whatever it is at */
    loader_stop(l);
    loader_stop(NULL);
    for (int i = 0; i < N; i++)
        recording_close(recordings[i]);
}

static int64_t windows_in(struct cache *c, int64_t *ret_evictions) {
    struct cache_stats s;
    cache_stats(c, &s);
    *ret_evictions = s.window_evictions;
    return s.window_bytes;
}

static struct recording *planned(const struct window_build *b) {
    struct recording *rec = NULL;
    bool skipped = false;
    struct err err = {0};
    if (window_plan(b, &rec, &skipped, &err))
        fail_msg("%s; %s", err.message, err.cause);
    return rec;
}

static void loaded_recordings_keep_their_windows_and_others_are_evicted(void **state) {
    (void)state;
    enum { N = 3, LIMIT = 150000 }; /* one recording of 15 s has 146 KB */
    struct recording *recordings[N];
    struct cache *c = NULL;
    struct err err = {0};
    char objects[4300], place[4200], windows[4300], names[N][4300];
    int64_t evictions;
    snprintf(place, sizeof place, "%s/bounded", folder);
    snprintf(objects, sizeof objects, "%s/objects", place);
    snprintf(windows, sizeof windows, "%s/windows", place);
    assert_int_equal(cache_open(objects, windows, LIMIT, &c, &err), 0);
    for (int i = 0; i < N; i++) {
        struct fixture f = {fixture_referential, 19, 256, 15, NULL, NULL};
        snprintf(names[i], sizeof names[i], "%s/bounded-%d_eeg.edf", folder, i);
        fixture_write(names[i], &f);
        struct window_build b = request(names[i]);
        b.cache_dir = place;
        b.cache = c;
        recordings[i] = planned(&b);
        if (recording_load(recordings[i], &err))
            fail_msg("%s; %s", err.message, err.cause);
    }
    assert_true(windows_in(c, &evictions) > 2 * LIMIT);
    assert_int_equal(evictions, 0); /* all are in use */
    recording_unload(recordings[0]);
    assert_int_equal((windows_in(c, &evictions), evictions), 1);
    assert_int_equal(recording_load(recordings[0], &err), 0); /* made again */
    for (int i = 0; i < N; i++)
        recording_close(recordings[i]);
    assert_true(windows_in(c, &evictions) <= LIMIT);
    struct cache_stats s;
    cache_stats(c, &s);
    assert_int_equal(s.pinned, 0);
    cache_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_says_what_the_samples_will_say_whatever_rate_and_gaps),
        cmocka_unit_test(channels_that_contradict_each_other_are_told_once_when_the_samples_are_read),
        cmocka_unit_test(the_plan_says_what_real_files_hold),
        cmocka_unit_test(the_head_of_a_mirrored_recording_is_enough_to_plan_it_unless_it_has_gaps),
        cmocka_unit_test(real_files_give_the_same_through_a_mirror),
        cmocka_unit_test(windows_of_a_planned_recording_are_those_of_its_cache_file),
        cmocka_unit_test(a_source_that_changed_after_planning_is_refused_with_the_mend),
        cmocka_unit_test(loaded_recordings_keep_their_windows_and_others_are_evicted),
        cmocka_unit_test(a_loader_readies_recordings_and_passes_over_what_it_cannot_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
