/* picture SVG|job:ID/PATH: a picture as PNG or PDF. */

#include "plot/picture.h"
#include "client/brrctl/jobs/job_files.h"

enum { SVG_BYTES = 64 << 20 };

struct picture_options {
    const char *output;
};
#define OPTIONS struct picture_options
static const struct argument rows[] = {
    OUTPUT("--output", output, "FILE", "FILE.png or FILE.pdf", .alias = "--out"),
};

struct drawing {
    const char *output;
    bool drawn;
};

static int draw_file(void *ctx, const struct job_file *file, struct err *err) {
    struct drawing *d = ctx;
    d->drawn = true;
    return picture_write(d->output, file->data, file->len, err);
}

/* "job:ID/operating.svg" */
static int draw_of_job(const struct arguments *o, const char *reference) {
    struct drawing d = {.output = own(o)->output};
    char id[64];
    const char *slash = strchr(reference, '/');
    if (!slash || !str_format(id, sizeof id, "%.*s", (int)(slash - reference), reference)) {
        fprintf(stderr, "brrctl: %s names no file; expected job:ID/FILE.svg, such as job:ID/training.svg or job:ID/operating.svg\n",
                reference);
        return EXIT_USAGE;
    }
    const char *path = slash + 1;
    int code = job_files_each(o, id, &path, 1, draw_file, &d);
    if (code || d.drawn)
        return code;
    fprintf(stderr, "brrctl: job %s has no file %s\n", id, path);
    return EXIT_NOT_FOUND;
}

static int cmd_picture(const struct arguments *o) {
    OWNED_MEMORY char *svg = NULL;
    size_t len;
    struct err err;
    if (!own(o)->output || !picture_named(own(o)->output)) {
        fputs("brrctl: picture needs --output FILE.png or FILE.pdf\n", stderr);
        return EXIT_USAGE;
    }
    if (str_starts(o->args[0], "job:"))
        return draw_of_job(o, o->args[0] + 4);
    if (fsio_read(o->args[0], SVG_BYTES, &svg, &len, &err) || picture_write(own(o)->output, svg, len, &err))
        return brrctl_fail(&err);
    return 0;
}

BRRCTL_COMMAND(picture, "SVG|job:ID/PATH", ARGUMENTS(rows), cmd_picture, "write a picture as PNG or PDF",
               "The picture is an SVG file, or one in the folder of a job. Needs the library librsvg2-2.\n"
               "example: brrctl picture job:train-260131-1/training.svg --output training.pdf");
