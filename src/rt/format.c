/* SPDX-License-Identifier: MIT */
/* The formatter of messages: a small printf without stdio, locale and allocation. */
#include "rt/message.h"

struct sink {
  char *buf;
  size_t size, length; /* length: what was wanted so far, also beyond size */
};

struct spec {
  bool left, zeros;
  int width, precision; /* precision -1: none */
  char length;          /* 0, 'l', 'L' (ll), 'z' */
};

static void put(struct sink *out, char c) {
  if (out->length + 1 < out->size) out->buf[out->length] = c;
  out->length++;
}

static void put_padding(struct sink *out, char c, int n) {
  for (; n > 0; n--) put(out, c);
}

static void put_text(struct sink *out, const struct spec *spec, const char *text) {
  if (text == NULL) text = "(null)";
  int n = 0;
  while ((spec->precision < 0 || n < spec->precision) && text[n] != 0) n++;
  if (!spec->left) put_padding(out, ' ', spec->width - n);
  for (int i = 0; i < n; i++) put(out, text[i]);
  if (spec->left) put_padding(out, ' ', spec->width - n);
}

/* prefix: "", "-" or "0x"; zeros go between prefix and digits, blanks before both. */
static void put_number(struct sink *out, const struct spec *spec, unsigned long long value,
                       unsigned base, const char *prefix) {
  char digits[24]; /* 64 bits are 20 decimal digits */
  int n = 0, n_prefix = 0;
  do {
    digits[n++] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  while (prefix[n_prefix] != 0) n_prefix++;
  int padding = spec->width - n - n_prefix;
  if (!spec->left && !spec->zeros) put_padding(out, ' ', padding);
  for (int i = 0; i < n_prefix; i++) put(out, prefix[i]);
  if (!spec->left && spec->zeros) put_padding(out, '0', padding);
  while (n > 0) put(out, digits[--n]);
  if (spec->left) put_padding(out, ' ', padding);
}

static unsigned long long take_unsigned(char length, va_list *args) {
  switch (length) {
  case 'l': return va_arg(*args, unsigned long);
  case 'L': return va_arg(*args, unsigned long long);
  case 'z': return va_arg(*args, size_t);
  default: return va_arg(*args, unsigned);
  }
}

static long long take_signed(char length, va_list *args) {
  switch (length) {
  case 'l': return va_arg(*args, long);
  case 'L': return va_arg(*args, long long);
  case 'z': return va_arg(*args, ptrdiff_t);
  default: return va_arg(*args, int);
  }
}

static const char *read_number(const char *fmt, va_list *args, int *number) {
  if (*fmt == '*') {
    *number = va_arg(*args, int);
    return fmt + 1;
  }
  int n = 0;
  for (; *fmt >= '0' && *fmt <= '9'; fmt++)
    if (n < 10000) n = n * 10 + (*fmt - '0');
  *number = n;
  return fmt;
}

/* fmt stands behind the '%'; returns the place of the conversion's letter. */
static const char *read_spec(const char *fmt, va_list *args, struct spec *spec) {
  *spec = (struct spec){ .precision = -1 };
  for (; *fmt == '-' || *fmt == '0'; fmt++) {
    if (*fmt == '-') spec->left = true;
    else spec->zeros = true;
  }
  fmt = read_number(fmt, args, &spec->width);
  if (spec->width < 0) {
    spec->left = true;
    spec->width = -spec->width;
  }
  if (*fmt == '.') fmt = read_number(fmt + 1, args, &spec->precision);
  if (*fmt == 'z' || *fmt == 'l') spec->length = *fmt++;
  if (spec->length == 'l' && *fmt == 'l') {
    spec->length = 'L';
    fmt++;
  }
  return fmt;
}

static void put_conversion(struct sink *out, const struct spec *spec, char letter, va_list *args) {
  switch (letter) {
  case 's': put_text(out, spec, va_arg(*args, const char *)); break;
  case 'c': {
    char text[2] = { (char)va_arg(*args, int), 0 };
    put_text(out, spec, text);
    break;
  }
  case 'd':
  case 'i': {
    long long value = take_signed(spec->length, args);
    unsigned long long amount = (unsigned long long)value;
    if (value < 0) amount = 0 - amount;
    put_number(out, spec, amount, 10, value < 0 ? "-" : "");
    break;
  }
  case 'u': put_number(out, spec, take_unsigned(spec->length, args), 10, ""); break;
  case 'x': put_number(out, spec, take_unsigned(spec->length, args), 16, ""); break;
  case 'p': put_number(out, spec, (uintptr_t)va_arg(*args, void *), 16, "0x"); break;
  default: put(out, letter); break; /* "%%", and what is not known here, shows as it is written */
  }
}

size_t mi__vformat(char *buf, size_t size, const char *fmt, va_list args) {
  struct sink out = { buf, size, 0 };
  va_list rest; /* a parameter may be a pointer already, and &args then no va_list * */
  va_copy(rest, args);
  for (; *fmt != 0; fmt++) {
    if (*fmt != '%') {
      put(&out, *fmt);
      continue;
    }
    struct spec spec;
    fmt = read_spec(fmt + 1, &rest, &spec);
    if (*fmt == 0) break;
    put_conversion(&out, &spec, *fmt, &rest);
  }
  va_end(rest);
  buf[out.length < size ? out.length : size - 1] = 0;
  return out.length;
}

size_t mi__format(char *buf, size_t size, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  size_t length = mi__vformat(buf, size, fmt, args);
  va_end(args);
  return length;
}
