/* BrainVision: the samples of an EDF file bit for bit in every layout, markers and gaps, errors that name the reason, heads, and
 * one folder of two formats. */

#include "eeg/labels.h"
#include "eeg_fixture.h"
#include "formats/eegfile.h"
#include "store/cache.h"
#include "store/store.h"
#include "unit/brainvision_writer.h"
#include "unit/cmocka_all.h"
#include "unit/temp_dir.h"
#include "windows/manifest.h"
#include "windows/mirrored.h"
#include "windows/recording.h"
#include "windows/window.h"

enum { SECONDS = 20, RATE = 256, SIGNALS = 19, SAMPLES = SECONDS * RATE };

static const struct written_brainvision BASE = {.binary = "INT_16",
                                                .labels = fixture_referential,
                                                .n_signals = SIGNALS,
                                                .seconds = SECONDS,
                                                .rate_hz = RATE,
                                                .resolution = "0.5",
                                                .factor = 0.5};

/* The same samples at 0.5 µV a step. */
static void write_twin(const char *path) {
    struct written_signal signals[SIGNALS];
    for (int s = 0; s < SIGNALS; s++)
        signals[s] = (struct written_signal){.label = fixture_referential[s],
                                             .samples = RATE,
                                             .physical_min = "-16384",
                                             .physical_max = "16383.5",
                                             .digital_min = "-32768",
                                             .digital_max = "32767"};
    const struct written_file f = {.n_signals = SIGNALS, .n_records = SECONDS, .signals = signals};
    struct str bytes;
    str_init(&bytes, 8 << 20);
    edf_write(&f, false, &bytes);
    put_file(path, bytes.data, bytes.len);
    str_done(&bytes);
}

static float *read_all(const char *path, struct eegfile **ret) {
    struct err err = {0};
    int signals[SIGNALS];
    float *uv[SIGNALS], *samples = calloc(SIGNALS * SAMPLES, sizeof *samples);
    for (int s = 0; s < SIGNALS; s++) {
        signals[s] = s;
        uv[s] = samples + s * SAMPLES;
    }
    if (eegfile_open(path, ret, &err) || eegfile_read(*ret, signals, SIGNALS, (struct eeg_range){0, SAMPLES}, uv, &err))
        fail_msg("%s", err.message);
    return samples;
}

static void every_layout_has_the_samples_of_its_edf_twin(void **state) {
    static const char *const types[] = {"INT_16", "INT_32", "IEEE_FLOAT_32"};
    struct eegfile *edf, *file;
    write_twin(in_dir(state, "twin.edf"));
    float *wanted = read_all(in_dir(state, "twin.edf"), &edf);
    for (int i = 0; i < 6; i++) {
        struct written_brainvision f = BASE;
        f.binary = types[i / 2];
        f.vectorized = i & 1;
        write_brainvision(in_dir(state, "x"), &f);
        float *got = read_all(in_dir(state, "x.vhdr"), &file);
        assert_memory_equal(got, wanted, SIGNALS * SAMPLES * sizeof *got);
        const struct eeg_info *a = eegfile_info(edf), *b = eegfile_info(file);
        assert_true(a->duration_s == b->duration_s && a->n_signals == b->n_signals && b->n_segments == 1 && !b->n_repairs);
        assert_true(b->signals[3].rate_hz == RATE && b->signals[3].volt && b->signals[3].usable);
        assert_string_equal(a->signals[3].label, b->signals[3].label);
        assert_string_equal(eegfile_format(file), "BrainVision");
        const int order[] = {7, 2};
        float part[2][700];
        assert_int_equal(eegfile_read(file, order, 2, (struct eeg_range){1001, 700}, (float *[]){part[0], part[1]}, NULL), 0);
        assert_memory_equal(part[0], wanted + 7 * SAMPLES + 1001, sizeof part[0]);
        assert_memory_equal(part[1], wanted + 2 * SAMPLES + 1001, sizeof part[1]);
        assert_int_equal(eegfile_read(file, order, 2, (struct eeg_range){SAMPLES - 1, 2}, (float *[]){part[0], part[1]}, NULL),
                         ERR_RANGE);
        free(got);
        eegfile_close(file);
    }
    free(wanted);
    eegfile_close(edf);
}

static void markers_are_annotations_and_dated_segments_are_gaps(void **state) {
    struct written_brainvision f = BASE;
    struct err err = {0};
    struct eegfile *file = NULL;
    f.markers = "Mk1=New Segment,,1,1,0,20240131235958500000\r\n"
                "Mk2=Comment,sz\\1 left,257,512,0\r\n"
                "Mk3=Stimulus,,2561,1,0\r\n"
                "Mk4=New Segment,,2561,1,0,20240201000018500000\r\n"
                "Mk5=Comment,after the gap,2817,1,0\r\n";
    write_brainvision(in_dir(state, "x"), &f);
    assert_int_equal(eegfile_open(in_dir(state, "x.vhdr"), &file, &err), 0);
    const struct eeg_info *info = eegfile_info(file);
    char text[32];
    assert_string_equal(eegfile_start_text(file, text, sizeof text), "2024-01-31 23:59:58");
    assert_true(info->start.subsecond == 0.5);
    assert_int_equal(info->n_segments, 2);
    assert_true(info->segments[1].first_record == 2560 && info->segments[1].n_records == 2560);
    assert_true(fabs(info->segments[1].start_s - 20) < 1e-6 && fabs(info->duration_s - 30) < 1e-6);
    assert_int_equal(info->n_annotations, 3);
    assert_string_equal(info->annotations[0].text, "sz, left");
    assert_true(fabs(info->annotations[0].onset_s - 1) < 1e-9 && fabs(info->annotations[0].duration_s - 2) < 1e-9);
    assert_string_equal(info->annotations[1].text, "Stimulus");
    assert_true(fabs(info->annotations[1].onset_s - 20) < 1e-6 && isnan(info->annotations[1].duration_s));
    assert_true(fabs(info->annotations[2].onset_s - 21) < 1e-6);
    OWNED(labels_done) struct labels labels = {0};
    assert_int_equal(labels_load(in_dir(state, "x.vhdr"), "auto", NULL, &labels, &err), 0);
    assert_int_equal(labels.source, LABELS_EDF_ANNOTATIONS);
    assert_true(labels.n_runs == 1 && labels.runs[0].onset_s == 1 && labels.runs[0].end_s == 3);
    eegfile_close(file);
}

/* Segments in any order are the same; summer time ends between two samples; a longer step back is an error. */
static void gaps_are_placed_in_the_order_of_samples(void **state) {
    static const char *const markers[] = {
        "Mk1=New Segment,,3841,1,0,20240131000100000000\r\nMk2=New Segment,,1,1,0,20240131000000000000\r\n"
        "Mk3=New Segment,,2561,1,0,20240131000020000000\r\n",
        "Mk1=New Segment,,1,1,0,20240131000000000000\r\nMk2=New Segment,,2561,1,0,20240131000020000000\r\n"
        "Mk3=New Segment,,2561,1,0,20240131000020000000\r\nMk4=New Segment,,3841,1,0,20240131000100000000\r\n",
        "Mk1=New Segment,,1,1,0,20241027025955000000\r\nMk2=New Segment,,1281,1,0,20241027020000000000\r\n",
        "Mk1=New Segment,,1,1,0,20241027025955000000\r\nMk2=New Segment,,1281,1,0,20241027005800000000\r\n",
        "Mk1=New Segment,,1,1,0,20241027025955000000\r\nMk2=New Segment,,1281,1,0,20231027030000000000\r\n"};
    for (int i = 0; i < 5; i++) {
        struct written_brainvision f = BASE;
        struct err err = {0};
        struct eegfile *file = NULL;
        f.markers = markers[i];
        write_brainvision(in_dir(state, "x"), &f);
        const int rc = eegfile_open(in_dir(state, "x.vhdr"), &file, &err);
        assert_int_equal(rc, i >= 3 ? ERR_INVALID : 0);
        if (i >= 3) {
            assert_non_null(strstr(err.message, "steps back"));
            assert_int_equal(strstr(err.message, "dates is probably wrong") != NULL, i == 4);
            continue;
        }
        const struct eeg_info *info = eegfile_info(file);
        assert_int_equal(info->n_segments, i == 2 ? 1 : 3);
        assert_int_equal(info->n_repairs, i == 2);
        if (i < 2) {
            assert_true(fabs(info->segments[1].start_s - 20) < 1e-6 && info->segments[1].first_record == 2560);
            assert_true(fabs(info->segments[2].start_s - 60) < 1e-6 && info->segments[2].first_record == 3840);
        }
        eegfile_close(file);
    }
}

static void put_text(void **state, const char *name, const char *text) { put_file(in_dir(state, name), text, strlen(text)); }

static void what_cannot_be_read_is_an_error_with_the_reason(void **state) {
    static const char form[] = "BrainVision Data Exchange Header File Version 1.0\n[Common Infos]\nDataFile=%s\nDataFormat=%s\n"
                               "DataOrientation=MULTIPLEXED\nNumberOfChannels=%s\nSamplingInterval=%s\n[Binary Infos]\n"
                               "BinaryFormat=%s\n%s[Channel Infos]\nCh1=Fp1,,%s,uV\n";
    static const struct {
        const char *data, *format, *channels, *interval, *binary, *more, *resolution, *word;
        int rc;
    } cases[] = {
        {"d.eeg", "ASCII", "1", "4000", "INT_16", "", "1", "DataFormat=ASCII is not read; export", ERR_UNSUPPORTED},
        {"d.eeg", "BINARY", "1", "4000", "UINT_16", "", "1", "BinaryFormat=UINT_16 is not read", ERR_UNSUPPORTED},
        {"d.eeg", "BINARY", "1", "4000", "INT_16", "UseBigEndianOrder=YES\n", "1", "UseBigEndianOrder=YES", ERR_UNSUPPORTED},
        {"d.eeg", "BINARY", "1", "4000", "INT_16", "[Common Infos]\nSegmentationType=MARKERBASED\n", "1",
         "SegmentationType=MARKERBASED is not read", ERR_UNSUPPORTED},
        {"d.eeg", "BINARY", "1", "4000", "INT_16", "[Common Infos]\nAveraged=YES\n", "1", "Averaged=YES is not read",
         ERR_UNSUPPORTED},
        {"d.eeg", "BINARY", "2", "4000", "INT_16", "", "1", "Ch2 is missing in [Channel Infos]", ERR_INVALID},
        {"d.eeg", "BINARY", "0", "4000", "INT_16", "", "1", "NumberOfChannels=0; expected a number above 0", ERR_INVALID},
        {"d.eeg", "BINARY", "1", "", "INT_16", "", "1", "SamplingInterval=; expected", ERR_INVALID},
        {"d.eeg", "BINARY", "1", "4000", "INT_16", "", "much", "the resolution of Ch1 is 'much'", ERR_INVALID},
        {"away.eeg", "BINARY", "1", "4000", "INT_16", "", "1", "its file away.eeg cannot be opened", ERR_NOT_FOUND},
    };
    put_text(state, "d.eeg", "12345678");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        struct eegfile *file = NULL;
        struct err err = {0};
        snprintf(text, sizeof text, form, cases[i].data, cases[i].format, cases[i].channels, cases[i].interval, cases[i].binary,
                 cases[i].more, cases[i].resolution);
        put_text(state, "x.vhdr", text);
        assert_int_equal(eegfile_open(in_dir(state, "x.vhdr"), &file, &err), cases[i].rc);
        if (!strstr(err.message, cases[i].word))
            fail_msg("'%s' lacks '%s'", err.message, cases[i].word);
    }
    struct err err = {0};
    struct eegfile *file = NULL;
    assert_int_equal(eegfile_open(in_dir(state, "d.eeg"), &file, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "name the file that ends in .vhdr"));
}

static void formats_that_are_not_read_are_named_with_the_export(void **state) {
    static const char *const names[] = {"x.trc", "x.E", "x.cnt", "x_raw.fif"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct eegfile *file = NULL;
        struct err err = {0};
        put_text(state, names[i], "anything");
        assert_int_equal(eegfile_open(in_dir(state, names[i]), &file, &err), ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, "which is not read; export it as EDF"));
        assert_false(eegfile_named(in_dir(state, names[i])));
    }
    struct eegfile *file = NULL;
    struct err err = {0};
    char old[0x100] = "EEG-1200A V01.00";
    put_file(in_dir(state, "x.EEG"), old, sizeof old);
    assert_int_equal(eegfile_open(in_dir(state, "x.EEG"), &file, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "EEG-1200A V01.00"));
    write_twin(in_dir(state, "y.cnt")); /* its bytes say what it is */
    assert_int_equal(eegfile_open(in_dir(state, "y.cnt"), &file, &err), 0);
    eegfile_close(file);
}

/* Records of a growing file say what the whole file says. */
static void samples_that_arrive_are_those_of_the_file(void **state) {
    struct written_brainvision f = BASE;
    struct eegfile *file = NULL, *fed = NULL;
    struct eegfile_growth growth;
    struct err err = {0};
    char *bytes = NULL;
    size_t len = 0;
    write_brainvision(in_dir(state, "x"), &f);
    float *wanted = read_all(in_dir(state, "x.vhdr"), &file);
    assert_int_equal(eegfile_open_growing(in_dir(state, "x.vhdr"), &fed, &growth, &err), 0);
    assert_string_equal(growth.path, in_dir(state, "x.eeg"));
    assert_int_equal(growth.offset, 0);
    assert_int_equal(eegfile_info(fed)->n_records, 0);
    assert_int_equal(fsio_read(growth.path, 1 << 24, &bytes, &len, &err), 0);
    const int64_t record = eegfile_record_bytes(fed);
    assert_int_equal(record, 2 * SIGNALS);
    for (int64_t at = 0, n = 1; at < SAMPLES; at += n, n = n * 3 + 1) {
        float got[2][SAMPLES];
        n = n < SAMPLES - at ? n : SAMPLES - at;
        assert_int_equal(eegfile_feed(fed, bytes + at * record, n, &err), 0);
        assert_int_equal(eegfile_info(fed)->n_records, at + n);
        assert_int_equal(eegfile_info(fed)->n_segments, 1);
        assert_int_equal(eegfile_read(fed, (int[]){3, 0}, 2, (struct eeg_range){at, n}, (float *[]){got[0], got[1]}, &err), 0);
        assert_memory_equal(got[0], wanted + 3 * SAMPLES + at, (size_t)n * sizeof(float));
        assert_memory_equal(got[1], wanted + at, (size_t)n * sizeof(float));
        assert_int_equal(
            at ? eegfile_read(fed, (int[]){0}, 1, (struct eeg_range){at - 1, 1}, (float *[]){got[0]}, &err) : ERR_RANGE, ERR_RANGE);
    }
    eegfile_close(fed);
    eegfile_close(file);
    free(bytes);
    free(wanted);
    f.vectorized = true;
    write_brainvision(in_dir(state, "x"), &f);
    assert_int_equal(eegfile_open_growing(in_dir(state, "x.vhdr"), &fed, &growth, &err), ERR_UNSUPPORTED);
    write_twin(in_dir(state, "y.edf"));
    assert_int_equal(eegfile_open_growing(in_dir(state, "y.edf"), &fed, &growth, &err), ERR_UNSUPPORTED);
}

static bool go_on(void *ctx, const struct mirror_progress *p) {
    (void)ctx, (void)p;
    return true;
}

/* The rules of recordings, on a machine that cannot read now. */
static bool reads_nothing;

static int failing_parts(const char *path, char names[MIRROR_PARTS][MIRROR_NAME_SIZE], int *ret_n, struct err *err) {
    return reads_nothing ? err_set(err, ERR_INTERNAL, "it cannot be read now") : mirrored_recordings.parts(path, names, ret_n, err);
}

/* Of a bucket the heads are enough to plan; the samples of the taken recording are those of the local one. */
static void a_bucket_is_planned_by_heads_and_read_whole(void **state) {
    struct written_brainvision f = BASE;
    struct err err = {0};
    struct store *store = NULL;
    struct mirror *mirror = NULL;
    struct cache *cache = NULL;
    char url[600], tree[700], whole[CACHE_PATH_SIZE];
    f.markers = "Mk1=Comment,seizure,513,1024,0\r\n";
    assert_int_equal(fsio_mkdirs(in_dir(state, "bucket/sub-01"), NULL), 0);
    write_brainvision(in_dir(state, "bucket/sub-01/sub-01_eeg"), &f);
    put_text(state, "bucket/notes.eeg.txt", "a label file");
    assert_int_equal(fsio_mkdirs(in_dir(state, "bucket/other"), NULL), 0);
    put_text(state, "bucket/other/lone.vmrk", "no header here");
    snprintf(url, sizeof url, "file://%s", in_dir(state, "bucket"));
    assert_int_equal(store_open(&(struct store_config){.url = url}, &store, &err), 0);
    assert_int_equal(cache_open(in_dir(state, "cache"), NULL, 16 << 20, &cache, &err), 0);
    const struct mirror_rules rules = {mirrored_recordings.kind, failing_parts};
    const struct mirror_config config = {
        .rules = &rules, .store = store, .cache = cache, .prefix = "", .directory = in_dir(state, "tree"), .head_bytes = 4096};
    assert_int_equal(mirror_open(&config, go_on, NULL, &mirror, &err), 0);
    snprintf(tree, sizeof tree, "%s/sub-01/sub-01_eeg.vhdr", mirror_directory(mirror));
    struct eegfile *head = NULL, *file = NULL;
    bool enough = false;
    float one[1];
    int64_t bytes;
    assert_int_equal(eegfile_open_head(tree, (struct eegfile_sizes){mirror_bytes, mirror}, &head, &enough, &err), 0);
    assert_true(enough && eegfile_info(head)->n_records == SAMPLES && eegfile_info(head)->n_annotations == 1);
    assert_int_equal(eegfile_read(head, (int[]){0}, 1, (struct eeg_range){SAMPLES - 1, 1}, (float *[]){one}, &err),
                     ERR_PRECONDITION);
    eegfile_close(head);
    reads_nothing = true; /* which parts it has is then not known, and is asked again */
    assert_int_equal(mirror_take(mirror, tree, whole, &err), ERR_INTERNAL);
    reads_nothing = false;
    assert_int_equal(mirror_take(mirror, tree, whole, &err), 0);
    float *a = read_all(whole, &file);
    eegfile_close(file);
    float *b = read_all(in_dir(state, "bucket/sub-01/sub-01_eeg.vhdr"), &file);
    eegfile_close(file);
    assert_memory_equal(a, b, SIGNALS * SAMPLES * sizeof *a);
    assert_false(fsio_exists(in_dir(state, "tree/other/lone.vmrk")));
    assert_int_equal(fsio_size(in_dir(state, "tree/sub-01/sub-01_eeg.eeg"), &bytes, &(int64_t){0}, NULL), 0);
    assert_int_equal(bytes, 4096);
    mirror_drop(mirror, tree);
    free(a);
    free(b);
    mirror_close(mirror);
    cache_close(cache);
    store_close(store);
}

/* A header whose first bytes do not name its files is taken whole, for its labels and for the key of its windows. */
static void a_header_longer_than_its_head_is_planned_too(void **state) {
    struct written_brainvision f = BASE;
    struct err err = {0};
    struct store *store = NULL;
    struct mirror *mirror = NULL;
    struct cache *cache = NULL;
    struct manifest *m = NULL;
    char url[600];
    f.markers = "Mk1=Comment,seizure,513,1024,0\r\n";
    assert_int_equal(fsio_mkdirs(in_dir(state, "bucket/sub-01"), NULL), 0);
    write_brainvision(in_dir(state, "bucket/sub-01/sub-01_eeg"), &f);
    snprintf(url, sizeof url, "file://%s", in_dir(state, "bucket"));
    assert_int_equal(store_open(&(struct store_config){.url = url}, &store, &err), 0);
    assert_int_equal(cache_open(in_dir(state, "cache"), NULL, 16 << 20, &cache, &err), 0);
    const struct mirror_config config = {.rules = &mirrored_recordings,
                                         .store = store,
                                         .cache = cache,
                                         .prefix = "",
                                         .directory = in_dir(state, "tree"),
                                         .head_bytes = 64};
    assert_int_equal(mirror_open(&config, go_on, NULL, &mirror, &err), 0);
    const struct manifest_config plan = {.root = mirror_directory(mirror),
                                         .mirror = mirror,
                                         .cache_dir = in_dir(state, "windows"),
                                         .frontend = {"referential-19", 50, {0.5, 120}, 2},
                                         .window = 512,
                                         .hop = 256,
                                         .labels = "auto",
                                         .unlabeled = "error",
                                         .workers = 1};
    if (manifest_open(&plan, NULL, NULL, &m, &err))
        fail_msg("%s", err.message);
    assert_int_equal(manifest_count(m), 1);
    manifest_close(m);
    mirror_close(mirror);
    cache_close(cache);
    store_close(store);
}

/* Samples [100, end) of the fourth channel become `value`, or what the one before them is. */
static void change_samples(void **state, const char *name, int end, const float *value) {
    char *data = NULL;
    size_t len = 0;
    assert_int_equal(fsio_read(in_dir(state, name), 64 << 20, &data, &len, NULL), 0);
    float *samples = (float *)(void *)data;
    for (int t = 100; t < end; t++)
        samples[t * SIGNALS + 3] = value ? *value : samples[99 * SIGNALS + 3];
    assert_int_equal(fsio_write_atomic(in_dir(state, name), data, len, NULL), 0);
    free(data);
}

static int build(void **state, const char *name, char path[4096], struct err *err) {
    char file[600], cache[600];
    str_copy(file, sizeof file, in_dir(state, name));
    str_copy(cache, sizeof cache, in_dir(state, "cache"));
    const struct window_build b = {.recording_path = file,
                                   .cache_dir = cache,
                                   .frontend = {"referential-19", 50, {0.5, 120}, 2},
                                   .labels = "auto",
                                   .unlabeled = "background"};
    return window_build(&b, path, 4096, NULL, err);
}

static void samples_that_are_no_numbers_are_held_as_in_a_stream(void **state) {
    static const char *const names[] = {"nan", "inf", "held"};
    static const float values[] = {NAN, -INFINITY};
    struct written_brainvision f = BASE;
    struct recording *rec[3];
    struct recording_info info[3];
    struct err err = {0};
    char path[4096], name[64];
    f.binary = "IEEE_FLOAT_32";
    f.vectorized = false;
    for (int k = 0; k < 3; k++) {
        write_brainvision(in_dir(state, names[k]), &f);
        snprintf(name, sizeof name, "%s.eeg", names[k]);
        change_samples(state, name, 400, k < 2 ? &values[k] : NULL);
        snprintf(name, sizeof name, "%s.vhdr", names[k]);
        if (build(state, name, path, &err) || recording_open(path, &rec[k], &err))
            fail_msg("%s", err.message);
        recording_info(rec[k], &info[k]);
    }
    const size_t rows = (size_t)info[2].segments[0].end * (size_t)info[2].columns * sizeof(uint16_t);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(info[k].segments[0].end, info[2].segments[0].end);
        assert_memory_equal(recording_rows(rec[k], 0, 0), recording_rows(rec[2], 0, 0), rows);
        assert_non_null(strstr(recording_missing(rec[k]), "300 samples of 1 channel are no numbers"));
        assert_string_equal(recording_tell_missing(rec[k]), recording_missing(rec[k]));
        assert_string_equal(recording_tell_missing(rec[k]), "");
    }
    assert_string_equal(recording_missing(rec[2]), "");
    for (int k = 0; k < 3; k++)
        recording_close(rec[k]);
    change_samples(state, "nan.eeg", 100 + f.seconds * f.rate_hz / 2 + 1, &values[0]);
    assert_int_equal(build(state, "nan.vhdr", path, &err), ERR_INVALID);
    assert_non_null(strstr(err.cause, f.labels[3]));
}

static const char LABELS[] = FIXTURE_EVENTS "4\t6\tsz\tn/a\tn/a\tn/a\t20\n";

/* What a network is fed of a folder of two formats: bit for bit what it is fed of the same recordings in EDF. */
static void a_folder_of_two_formats_is_the_same_folder_in_edf(void **state) {
    struct written_brainvision f = BASE;
    struct err err = {0};
    static const char *const folders[] = {"mixed", "edf"};
    struct manifest *m[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) {
        char name[64];
        snprintf(name, sizeof name, "%s/sub-02", folders[k]);
        assert_int_equal(fsio_mkdirs(in_dir(state, name), NULL), 0);
        snprintf(name, sizeof name, "%s/sub-01_eeg.edf", folders[k]);
        write_twin(in_dir(state, name));
        snprintf(name, sizeof name, "%s/sub-01_events.tsv", folders[k]);
        put_text(state, name, LABELS);
        snprintf(name, sizeof name, "%s/sub-02/sub-02_events.tsv", folders[k]);
        put_text(state, name, LABELS);
        snprintf(name, sizeof name, k ? "%s/sub-02/sub-02_eeg.edf" : "%s/sub-02/sub-02_eeg", folders[k]);
        if (k)
            write_twin(in_dir(state, name));
        else
            write_brainvision(in_dir(state, name), &f);
        const struct manifest_config config = {.root = in_dir(state, folders[k]),
                                               .cache_dir = in_dir(state, "cache"),
                                               .frontend = {"referential-19", 50, {0.5, 120}, 2},
                                               .window = 512,
                                               .hop = 256,
                                               .labels = "auto",
                                               .unlabeled = "error",
                                               .workers = 2};
        if (manifest_open(&config, NULL, NULL, &m[k], &err))
            fail_msg("%s", err.message);
    }
    assert_int_equal(manifest_count(m[0]), 2);
    assert_int_equal(manifest_count(m[1]), 2);
    for (int i = 0; i < 2; i++) {
        struct recording *a = manifest_entry(m[0], i)->recording, *b = manifest_entry(m[1], i)->recording;
        float *x = calloc(512 * SIGNALS, sizeof *x), *y = calloc(512 * SIGNALS, sizeof *y);
        uint8_t labels[2][512];
        int64_t valid[2];
        assert_string_equal(manifest_entry(m[0], i)->patient, manifest_entry(m[1], i)->patient);
        for (int64_t start = 0; start < SAMPLES; start += 256) {
            if (window_read(a, start, 512, x, labels[0], &valid[0], &err) ||
                window_read(b, start, 512, y, labels[1], &valid[1], &err))
                fail_msg("%s", err.message);
            assert_int_equal(valid[0], valid[1]);
            assert_memory_equal(x, y, 512 * SIGNALS * sizeof *x);
            assert_memory_equal(labels[0], labels[1], 512);
        }
        free(x);
        free(y);
    }
    manifest_close(m[0]);
    manifest_close(m[1]);
}

/* A recording whose samples change under an unchanged header is another one. */
static void a_change_of_the_samples_changes_the_key(void **state) {
    struct written_brainvision f = BASE;
    struct window_stamp a, b;
    write_brainvision(in_dir(state, "x"), &f);
    assert_int_equal(window_stamp_parts(NULL, in_dir(state, "x.vhdr"), in_dir(state, "x.vhdr"), &a, NULL), 0);
    f.seconds = 10;
    write_brainvision_samples(in_dir(state, "x.eeg"), &f);
    assert_int_equal(window_stamp_parts(NULL, in_dir(state, "x.vhdr"), in_dir(state, "x.vhdr"), &b, NULL), 0);
    assert_string_not_equal(a.hex, b.hex);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(every_layout_has_the_samples_of_its_edf_twin),
        in_temp_dir(markers_are_annotations_and_dated_segments_are_gaps),
        in_temp_dir(gaps_are_placed_in_the_order_of_samples),
        in_temp_dir(what_cannot_be_read_is_an_error_with_the_reason),
        in_temp_dir(formats_that_are_not_read_are_named_with_the_export),
        in_temp_dir(samples_that_arrive_are_those_of_the_file),
        in_temp_dir(a_bucket_is_planned_by_heads_and_read_whole),
        in_temp_dir(a_header_longer_than_its_head_is_planned_too),
        in_temp_dir(a_folder_of_two_formats_is_the_same_folder_in_edf),
        in_temp_dir(samples_that_are_no_numbers_are_held_as_in_a_stream),
        in_temp_dir(a_change_of_the_samples_changes_the_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
