// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A log file has generations: the present one, under the name that people know,
// and those that were rotated away, under names derived from it. What derives
// which names:
//
//	kube-log-runner   kubelet-20060102-150405.log          (local time)
//	lumberjack        agent-2006-01-02T15-04-05.000.log[.gz]
//	kubelet, for containers  0.log.20060102-150405[.gz]
//	logrotate         x.log.1[.gz], x.log-20060102[.gz]
//	our own agent     containerd-20060102-150405.log       (UTC)
//	klog              wicd.exe.HOST.USER.log.INFO.20060102-150405.PID, where the
//	                  known name wicd.exe.INFO is a link to the present one
type rotationName struct {
	name string
	// stamp is the time in the name, zero when it has a number.
	stamp time.Time
	// number counts rotations since: 1 is the youngest; 0 when it has a stamp.
	number int
	gzip   bool
}

var (
	stampSuffix = regexp.MustCompile(`^[-.](\d{4})-?(\d{2})-?(\d{2})(?:[-T](\d{2})-?(\d{2})-?(\d{2})(?:\.(\d{1,9}))?)?$`)
	klogSuffix  = regexp.MustCompile(`^(\d{4})(\d{2})(\d{2})-(\d{2})(\d{2})(\d{2})\.\d+$`)
	klogLink    = regexp.MustCompile(`^(.+)\.(INFO|WARNING|ERROR|FATAL)$`)
)

// parseRotation says whether name is a rotated generation of the file base.
func parseRotation(base, name string) (rotationName, bool) {
	r := rotationName{name: name}
	rest, gz := strings.CutSuffix(name, ".gz")
	r.gzip = gz
	if rest == base || rest == "" {
		return r, false
	}
	if m := klogLink.FindStringSubmatch(base); m != nil {
		after, ok := strings.CutPrefix(rest, m[1]+".")
		_, suffix, found := strings.Cut(after, ".log."+m[2]+".")
		if !ok || !found {
			return r, false
		}
		if parts := klogSuffix.FindStringSubmatch(suffix); parts != nil {
			r.stamp, ok = stampOf(parts[1:])
			return r, ok
		}
		return r, false
	}
	if after, ok := strings.CutPrefix(rest, base); ok {
		if n, ok := strings.CutPrefix(after, "."); ok && len(n) <= 4 {
			if number, err := strconv.Atoi(n); err == nil && number > 0 && allDigits(n) {
				r.number = number
				return r, true
			}
		}
		return withStamp(r, after)
	}
	stem, ext := splitExt(base)
	if middle, ok := strings.CutSuffix(rest, ext); ok && ext != "" {
		if after, ok := strings.CutPrefix(middle, stem); ok {
			return withStamp(r, after)
		}
	}
	return r, false
}

func withStamp(r rotationName, suffix string) (rotationName, bool) {
	parts := stampSuffix.FindStringSubmatch(suffix)
	if parts == nil {
		return r, false
	}
	var ok bool
	r.stamp, ok = stampOf(parts[1:])
	return r, ok
}

// stampOf makes a time of year, month, day, hour, minute, second and fraction, all
// but the first three of which may be missing. Stamps are compared with each
// other only, so the zone does not matter.
func stampOf(parts []string) (time.Time, bool) {
	var v [6]int
	for i := range v {
		if i < len(parts) && parts[i] != "" {
			v[i], _ = strconv.Atoi(parts[i])
		}
	}
	nanos := 0
	if len(parts) > 6 {
		for i, scale := 0, 100_000_000; i < len(parts[6]); i, scale = i+1, scale/10 {
			nanos += int(parts[6][i]-'0') * scale
		}
	}
	return validDate(v[0], v[1], v[2], v[3], v[4], v[5], nanos, time.UTC)
}

func splitExt(base string) (stem, ext string) {
	if i := strings.LastIndexByte(base, '.'); i > 0 {
		return base[:i], base[i:]
	}
	return base, ""
}

// end is where the text ends in the file.
func (g generation) end() int64 { return g.start + g.size }

// generation is one file of a log.
type generation struct {
	rotationName
	id fileID
	// start is where the text begins in the file: what was before it has been moved to
	// rotated files; see package sparse. size is that of the text.
	start, size int64
	mtime       time.Time
	// current marks the file that has the log's own name.
	current bool
}

// sortGenerations puts the oldest first and the current one last. Names order
// rotated files when all are of one kind; otherwise their modification times do,
// which compression may have changed.
func sortGenerations(list []generation) {
	stamps, numbers := true, true
	for i := range list {
		if !list[i].current {
			stamps = stamps && !list[i].stamp.IsZero()
			numbers = numbers && list[i].number > 0
		}
	}
	slices.SortStableFunc(list, func(a, b generation) int {
		if a.current != b.current {
			return boolCompare(a.current, b.current)
		}
		order := 0
		switch {
		case stamps:
			order = a.stamp.Compare(b.stamp)
		case numbers:
			order = cmp.Compare(b.number, a.number)
		}
		if order == 0 {
			order = a.mtime.Compare(b.mtime)
		}
		if order == 0 {
			order = strings.Compare(a.name, b.name)
		}
		return order
	})
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
