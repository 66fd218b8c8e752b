/* SVG text: what people may read cannot break the document, paths do not drift, axes get round steps. */

#include "base/base.h"
#include "unit/temp_dir.h"

#include "plot/svg.h"

/* What one call writes. */
#define written(call)                                                                                                              \
    __extension__({                                                                                                                \
        struct svg g;                                                                                                              \
        str_init(&g.out, SVG_MAX_BYTES);                                                                                           \
        call;                                                                                                                      \
        static char text[4096];                                                                                                    \
        assert_true(str_ok(&g.out) && str_copy(text, sizeof text, str_cstr(&g.out)));                                              \
        str_done(&g.out);                                                                                                          \
        text;                                                                                                                      \
    })

static void text_cannot_break_the_document(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {"sub-01 <b>&\"quoted\"</b>", "sub-01 &#60;b&#62;&#38;&#34;quoted&#34;&#60;/b&#62;"},
        {"50 µV, Fp1–F3, 😀", "50 µV, Fp1–F3, 😀"},
        {"a\tb\nc\x7f", "a?b?c?"},
        {"\xc2", "?"},                  /* ends too early */
        {"\xe2\x82", "??"},             /* the same, of three bytes */
        {"\xc0\xaf|\xc1\xbf", "??|??"}, /* overlong */
        {"\xe0\x9f\xbf", "???"},        /* overlong, of three bytes */
        {"\xf0\x8f\xbf\xbf", "????"},   /* overlong, of four */
        {"\xed\xa0\x80", "???"},        /* a surrogate */
        {"\xed\x9f\xbf", "\xed\x9f\xbf"},
        {"\xf4\x90\x80\x80", "????"}, /* beyond the last character */
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\xf5\x80\x80\x80|\xff", "????|?"},
        {"\xc2<", "?&#60;"}, /* what follows a bad byte is still escaped */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(written(svg_escape(&g, cases[i].text)), cases[i].want);
    assert_string_equal(written(svg_text(&g, 1.25, -2, "tick", "end", "a<b")),
                        "<text x=\"1.2\" y=\"-2.0\" class=\"tick\" text-anchor=\"end\">a&#60;b</text>\n");
}

static void short_boxes_stay_visible_and_tips_are_escaped(void **state) {
    (void)state;
    struct svg_box thin = {10, 20, 0.01, 30}, wide = {10, 20, 400, 30};
    assert_string_equal(written(svg_rect(&g, &thin, "alarm", NULL)),
                        "<rect x=\"10.0\" y=\"20.0\" width=\"1.5\" height=\"30.0\" class=\"alarm\"/>\n");
    assert_string_equal(
        written(svg_rect(&g, &wide, "detected", "5 > 4")),
        "<rect x=\"10.0\" y=\"20.0\" width=\"400.0\" height=\"30.0\" class=\"detected\"><title>5 &#62; 4</title></rect>\n");
    assert_string_equal(written(svg_line(&g, 0, 1, 2, 3.04, "grid")),
                        "<line x1=\"0.0\" y1=\"1.0\" x2=\"2.0\" y2=\"3.0\" class=\"grid\"/>\n");
}

static void draw_path(struct svg *g) {
    struct svg_path p;
    svg_path_open(&p, g, "curve");
    svg_path_move(&p, -0.5, 3);
    svg_path_line(&p, 0.5, 2.95);
    svg_path_line(&p, 10.5, -7.1);
    svg_path_line(&p, 10.5, -7.1);
    svg_path_shut(&p);
    svg_path_close(&p);
}

static void paths_are_written_as_differences_in_tenths(void **state) {
    (void)state;
    assert_string_equal(written(draw_path(&g)), "<path class=\"curve\" d=\"M-0.5 3l1 0l10-10.1l0 0z\"/>\n");
}

/* Where the pen stands after all the differences of a path. */
static void end_of(const char *d, double at[2]) {
    char *end;
    at[0] = strtod(d + 1, &end);
    at[1] = strtod(end, &end);
    while (*end == 'l') {
        double dx = strtod(end + 1, &end), dy = strtod(end, &end);
        at[0] += dx;
        at[1] += dy;
    }
    assert_string_equal(end, "\"/>\n");
}

static void a_long_path_does_not_drift(void **state) {
    (void)state;
    enum { POINTS = 20000 };
    struct svg g;
    struct svg_path p;
    double at[2];
    str_init(&g.out, SVG_MAX_BYTES);
    svg_path_open(&p, &g, "eeg");
    svg_path_move(&p, 0, 0);
    for (int i = 1; i <= POINTS; i++)
        svg_path_line(&p, i * 0.033, sin(i * 0.7) * 12.34);
    svg_path_close(&p);
    end_of(strchr(str_cstr(&g.out), 'M'), at);
    assert_float_equal(at[0], POINTS * 0.033, 0.06);
    assert_float_equal(at[1], sin(POINTS * 0.7) * 12.34, 0.06);
    str_done(&g.out);
}

static bool is_round(double step) {
    double m = step / pow(10, floor(log10(step) + 1e-9));
    return fabs(m - 1) < 1e-6 || fabs(m - 2) < 1e-6 || fabs(m - 5) < 1e-6;
}

static void axis_steps_are_round_and_no_finer_than_asked(void **state) {
    (void)state;
    assert_float_equal(svg_step(1, 5), 0.2, 1e-12);
    assert_float_equal(svg_step(100, 10), 10, 1e-12);
    assert_float_equal(svg_step(99, 10), 10, 1e-12);
    assert_float_equal(svg_step(101, 10), 20, 1e-12);
    assert_float_equal(svg_step(0.003, 4), 0.001, 1e-12);
    for (double range = 1e-6; range < 1e9; range *= 1.37)
        for (int most = 1; most < 20; most++) {
            double step = svg_step(range, most);
            if (!is_round(step) || range / step > most * (1 + 1e-9) || range / step * 2.5 < most * (1 - 1e-9))
                fail_msg("a range of %g in at most %d parts: %g", range, most, step);
        }
}

static void time_axes_step_like_a_clock(void **state) {
    (void)state;
    static const struct {
        double seconds;
        int most;
        double want;
    } cases[] = {{10, 10, 1},
                 {60, 10, 10},
                 {70, 5, 15},
                 {3600, 12, 300},
                 {3600, 6, 600},
                 {86400, 8, 10800},
                 {86400, 1, 86400},
                 {5, 10, 0.5},
                 {864000, 10, 86400},
                 {864001, 10, 172800},
                 {8640000, 10, 10 * 86400.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double step = svg_time_step(cases[i].seconds, cases[i].most);
        if (fabs(step - cases[i].want) > 1e-9)
            fail_msg("%g s in at most %d parts: %g, expected %g", cases[i].seconds, cases[i].most, step, cases[i].want);
    }
}

static void times_read_like_a_clock(void **state) {
    (void)state;
    static const struct {
        double seconds, step;
        const char *want;
    } cases[] = {{0, 1, "0:00"},
                 {59.94, 1, "0:59"},
                 {59.96, 1, "1:00"},
                 {750, 60, "12:30"},
                 {3599.96, 1, "1:00:00"},
                 {3723, 1, "1:02:03"},
                 {3723.5, 0.5, "1:02:03.5"},
                 {0.26, 0.1, "0:00.3"},
                 {360000, 3600, "100:00:00"}};
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        svg_time(text, sizeof text, cases[i].seconds, cases[i].step);
        assert_string_equal(text, cases[i].want);
    }
}

static void a_picture_is_saved_whole(void **state) {
    struct svg g;
    struct err err = {0};
    char *text = NULL;
    size_t len = 0;
    svg_open(&g, 640.4, 480, "EEG of \"sub-01\"");
    svg_line(&g, 0, 0, 1, 1, "axis");
    assert_int_equal(svg_save(&g, in_dir(state, "a.svg"), &err), 0);
    assert_int_equal(fsio_read(in_dir(state, "a.svg"), 1 << 20, &text, &len, &err), 0);
    assert_ptr_equal(strstr(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 480\""), text);
    assert_non_null(strstr(text, "aria-label=\"EEG of &#34;sub-01&#34;\""));
    assert_string_equal(text + len - 7, "</svg>\n");
    free(text);
    svg_open(&g, 1, 1, "");
    assert_int_equal(svg_save(&g, in_dir(state, "no-such-folder/a.svg"), &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "no-such-folder"));
}

static void a_picture_that_is_too_large_is_an_error_and_no_file(void **state) {
    struct svg g;
    struct err err = {0};
    static char block[1 << 20];
    memset(block, 'x', sizeof block - 1);
    svg_open(&g, 1, 1, "");
    for (int i = 0; i < SVG_MAX_BYTES >> 20; i++)
        svg_escape(&g, block);
    svg_escape(&g, block);
    assert_int_equal(svg_save(&g, in_dir(state, "large.svg"), &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "large.svg"));
    assert_int_not_equal(access(in_dir(state, "large.svg"), F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_cannot_break_the_document),
        cmocka_unit_test(short_boxes_stay_visible_and_tips_are_escaped),
        cmocka_unit_test(paths_are_written_as_differences_in_tenths),
        cmocka_unit_test(a_long_path_does_not_drift),
        cmocka_unit_test(axis_steps_are_round_and_no_finer_than_asked),
        cmocka_unit_test(time_axes_step_like_a_clock),
        cmocka_unit_test(times_read_like_a_clock),
        in_temp_dir(a_picture_is_saved_whole),
        in_temp_dir(a_picture_that_is_too_large_is_an_error_and_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
