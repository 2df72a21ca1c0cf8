package conf

import (
	"fmt"
	"strconv"
	"time"
)

type unit struct {
	suffix string
	bytes  int64
}

var units = []unit{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}}

// Offset returns a number of bytes on a disk, for nginx's function ngx_parse_offset. It uses the largest of the units
// g, m and k that divides the number, or bytes if no unit divides it. nginx has no larger unit, and refuses a
// configuration with a "t".
func Offset(bytes int64) Literal { return inUnits(bytes, units) }

// Size returns a number of bytes in memory, for nginx's function ngx_parse_size. nginx does not accept the unit g for
// such a number.
func Size(bytes int64) Literal { return inUnits(bytes, units[1:]) }

func inUnits(bytes int64, units []unit) Literal {
	for _, unit := range units {
		if bytes >= unit.bytes && bytes%unit.bytes == 0 {
			return Literal(strconv.FormatInt(bytes/unit.bytes, 10) + unit.suffix)
		}
	}
	return Literal(strconv.FormatInt(bytes, 10))
}

// Time returns a duration in nginx's units: whole seconds, or milliseconds. Directives that count in seconds, such as
// inactive and proxy_cache_valid, refuse milliseconds: give them [Seconds].
func Time(d time.Duration) Literal {
	if d%time.Second == 0 {
		return Literal(fmt.Sprintf("%ds", d/time.Second))
	}
	return Literal(fmt.Sprintf("%dms", d/time.Millisecond))
}

// Seconds returns a duration in whole seconds, rounded up so that a short time does not become 0.
func Seconds(d time.Duration) Literal {
	return Literal(fmt.Sprintf("%ds", (d+time.Second-1)/time.Second))
}

// Percent returns hundredths of a percent in the form that split_clients accepts, such as 0.05%.
func Percent(hundredths int) string {
	text := strconv.AppendInt(make([]byte, 0, 8), int64(hundredths/100), 10)
	return string(append(text, '.', digit(hundredths/10), digit(hundredths), '%'))
}

// digit returns the last decimal digit of a number that is not negative.
func digit(n int) byte { return "0123456789"[n%10] }

// Int returns a whole number.
func Int[T ~int | ~int32 | ~int64](n T) Literal { return Literal(strconv.FormatInt(int64(n), 10)) }
