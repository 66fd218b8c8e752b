/* Nihon Kohden: a recording of one block, and one whose log is there in part: an error that leaves no file open. */

#include "formats/eegfile.h"
#include "unit/cmocka_all.h"
#include "unit/edf_writer.h"
#include "unit/temp_dir.h"

static const char VERSION[] = "EEG-1100A V01.00";

/* One second of Fp1 at 200 Hz: sample t is t - 100 steps of 3.2 mV / 32768. */
static void write_blocks(const char *path, int blocks) {
    enum { CONTROL = 0x1800, BLOCK = 0x1900, DATA = BLOCK + 0x27 + 10, RATE = 200 };
    uint8_t bytes[0x2000] = {0};
    memcpy(bytes, VERSION, 16);
    memcpy(bytes + 0x81, VERSION, 16);
    bytes[0x17FE] = bytes[0x91] = 1;
    bytes[0x93] = CONTROL >> 8;
    bytes[CONTROL + 17] = (uint8_t)blocks;
    for (int i = 0; i < blocks; i++) /* all of them the same one */
        bytes[CONTROL + 19 + 20 * i] = BLOCK >> 8;
    bytes[BLOCK + 0x1A] = RATE;
    bytes[BLOCK + 0x1C] = 10; /* tenths of a second */
    bytes[BLOCK + 0x26] = 1;  /* channel, number 0 */
    for (int t = 0; t < RATE; t++) {
        const uint16_t sample = (uint16_t)(0x8000 + t - 100);
        memcpy(bytes + DATA + 4 * t, &sample, sizeof sample);
    }
    put_file(path, bytes, sizeof bytes);
}

static void write_nihon(const char *path) { write_blocks(path, 1); }

static int64_t log_is_longer(void *ctx, const char *path) {
    (void)ctx;
    return str_ends(path, ".LOG") ? 100000 : -1;
}

static int open_files(void) {
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void a_block_is_read(void **state) {
    struct eegfile *file = NULL;
    struct err err = {0};
    float uv[200];
    write_nihon(in_dir(state, "a.EEG"));
    if (eegfile_open(in_dir(state, "a.EEG"), &file, &err))
        fail_msg("%s", err.message);
    assert_string_equal(eegfile_info(file)->signals[0].label, "FP1");
    assert_int_equal(eegfile_info(file)->n_repairs, 2); /* no .21E, no .LOG */
    assert_int_equal(eegfile_read(file, (int[]){0}, 1, (struct eeg_range){0, 200}, (float *[]){uv}, &err), 0);
    for (int t = 0; t < 200; t++)
        assert_float_equal(uv[t], (t - 100) * 6399.902 / 65535, 0.1);
    eegfile_close(file);
}

static void a_log_of_which_the_start_is_there_leaves_nothing_open(void **state) {
    struct eegfile *file = NULL;
    struct err err = {0};
    bool enough;
    write_nihon(in_dir(state, "a.EEG"));
    put_file(in_dir(state, "a.LOG"), VERSION, sizeof VERSION);
    const int before = open_files();
    assert_int_equal(eegfile_open_head(in_dir(state, "a.EEG"), (struct eegfile_sizes){log_is_longer, NULL}, &file, &enough, &err),
                     ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "a.LOG: only its start is there"));
    assert_int_equal(open_files(), before);
}

/* The first bytes decide; a pipe of that name is not waited for. */
static void its_ending_is_that_of_other_files_too(void **state) {
    write_nihon(in_dir(state, "a.EEG"));
    put_file(in_dir(state, "b.eeg"), VERSION, 4);
    assert_int_equal(mkfifo(in_dir(state, "c.eeg"), 0600), 0);
    assert_true(eegfile_named(in_dir(state, "a.EEG")));
    assert_false(eegfile_named(in_dir(state, "b.eeg")));
    assert_false(eegfile_named(in_dir(state, "c.eeg")));
}

/* A small file must not claim hours. */
static void blocks_that_overlap_are_refused(void **state) {
    struct eegfile *file = NULL;
    struct err err = {0};
    write_blocks(in_dir(state, "a.EEG"), 11);
    assert_int_equal(eegfile_open(in_dir(state, "a.EEG"), &file, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "overlap"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_block_is_read),
        in_temp_dir(blocks_that_overlap_are_refused),
        in_temp_dir(its_ending_is_that_of_other_files_too),
        in_temp_dir(a_log_of_which_the_start_is_there_leaves_nothing_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
