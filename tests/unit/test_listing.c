/* listing: columns as wide as their widest cell, in characters, and rows that values cannot break. */
#include "base/base.h"
#include "client/brrctl/listing.h"

#include "unit/temp_dir.h"

/* What listing_end prints. */
static void expect_printed(struct listing *l, const char *path, const char *expected) {
    char text[1024] = "";
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    assert_non_null(freopen(path, "w", stdout));
    listing_end(l);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(text, expected);
}

static void columns_are_as_wide_as_their_widest_cell(void **state) {
    struct listing l;
    listing_begin(&l, "bed|>alarms|note");
    listing_row(&l, "%s|%d|%s", "north-ward-intensive-care-17", 3, "");
    listing_row(&l, "%s|%d|%s", "größe", 12345678, "a | b\nc");
    expect_printed(&l, in_dir(state, "out"),
                   "bed                             alarms  note\n"
                   "north-ward-intensive-care-17         3  \n"
                   "größe                         12345678  a | b c\n");
}

static void no_row_prints_no_titles(void **state) {
    struct listing l;
    listing_begin(&l, ">n|m");
    expect_printed(&l, in_dir(state, "out"), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {in_temp_dir(columns_are_as_wide_as_their_widest_cell), in_temp_dir(no_row_prints_no_titles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
