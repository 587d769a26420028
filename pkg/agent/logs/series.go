// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fileID identifies a file, whatever its name. The zero value is no file.
type fileID struct {
	volume, file uint64
}

func (id fileID) String() string {
	return strconv.FormatUint(id.volume, 16) + "-" + strconv.FormatUint(id.file, 16)
}

// series is one log: a file and the generations rotated away from it.
type series struct {
	root logRoot
	// dir and base are the parts of the log's own name.
	dir, base string
}

func newSeries(root logRoot, name string) series {
	return series{root: root, dir: path.Dir(name), base: path.Base(name)}
}

// errUnstable says that files were renamed faster than they could be listed.
var errUnstable = errors.New("the log is being rotated too fast to be listed")

// stat describes the generation that has a name.
func (s series) stat(name string) (generation, error) {
	seg, err := s.open(name)
	if err != nil {
		return generation{}, err
	}
	defer seg.close()
	return seg.gen, nil
}

func indexOf(list []generation, id fileID) int {
	return slices.IndexFunc(list, func(g generation) bool { return g.id == id })
}

// present describes the file that has the log's own name; [fs.ErrNotExist] when
// there is none.
func (s series) present() (generation, error) {
	g, err := s.stat(s.base)
	if errors.Is(err, fs.ErrNotExist) && klogLink.MatchString(s.base) {
		list, lerr := s.listOnce()
		if lerr != nil {
			return g, lerr
		}
		if len(list) == 0 {
			return g, err
		}
		g, err = list[len(list)-1], nil
	}
	g.current = err == nil
	return g, err
}

// listTries is how often the generations are listed until two lists agree. Real
// rotations are minutes apart.
const listTries = 50

// list lists the generations, oldest first. Names change under it while a log is
// rotated, and a list that mixes before and after would lose a file or show it
// twice. So it lists until two lists agree.
func (s series) list() ([]generation, error) {
	last, err := s.listOnce()
	if err != nil {
		return nil, err
	}
	for try := range listTries {
		if try > 2 {
			time.Sleep(time.Millisecond)
		}
		again, err := s.listOnce()
		if err != nil {
			return nil, err
		}
		if slices.EqualFunc(last, again, func(a, b generation) bool { return a.name == b.name && a.id == b.id }) {
			return s.withoutCopy(again), nil
		}
		last = again
	}
	return nil, errUnstable
}

// withoutCopy leaves out the youngest rotated generation if the present one begins like it and is
// not shorter: it is a copy of the present one, which is about to be truncated, and would be read
// twice. If that cannot be determined, both stay.
func (s series) withoutCopy(list []generation) []generation {
	last := len(list) - 1
	if last < 1 || !list[last].current || list[last-1].gzip || list[last-1].size == 0 || list[last-1].size > list[last].size {
		return list
	}
	rotated, err := s.openListed(list[last-1])
	if err != nil {
		return list
	}
	defer rotated.close()
	present, err := s.openListed(list[last])
	if err != nil {
		return list
	}
	defer present.close()
	if !bytes.HasPrefix(present.head, rotated.head) {
		return list
	}
	return slices.Delete(list, last-1, last)
}

func (s series) listOnce() ([]generation, error) {
	entries, err := s.root.list(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", s.dir, err)
	}
	plain := make(map[string]bool, len(entries))
	for _, e := range entries {
		plain[e.Name()] = true
	}
	base := s.base
	if runtime.GOOS == "windows" && !plain[base] {
		// The query may spell the name in its own way.
		for name := range plain {
			if strings.EqualFold(name, base) {
				base = name
			}
		}
	}
	var names []rotationName
	for _, e := range entries {
		r, rotated := parseRotation(base, e.Name())
		current := e.Name() == base
		if !rotated && !current {
			continue
		}
		if stem, gz := strings.CutSuffix(e.Name(), ".gz"); rotated && gz && plain[stem] {
			// Being compressed: the copy is not complete yet.
			continue
		}
		names = append(names, r)
	}
	var list []generation
	seen := make(map[fileID]int)
	for _, r := range newest(names) {
		current := r.name == base
		g, err := s.stat(r.name)
		if err != nil {
			// It no longer exists, or cannot be read: not a part of this log.
			continue
		}
		if !current {
			r.gzip = g.gzip
			g.rotationName = r
		}
		g.current = current
		if i, dup := seen[g.id]; dup {
			// klog's link and its target, or a hard link while rotating.
			list[i].current = list[i].current || current
			continue
		}
		seen[g.id] = len(list)
		list = append(list, g)
	}
	sortGenerations(list)
	if n := len(list); n > 0 && klogLink.MatchString(base) {
		// klog cannot always make its link. Its newest file is the present one.
		list[n-1].current = true
	}
	return list, nil
}
