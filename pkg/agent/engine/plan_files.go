// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/kubeletconfig"
)

// wantedFile is a file with its content.
type wantedFile struct {
	config.File
	content []byte // nil for a file of the payload
	digest  string // SHA-256 of the content
	waits   string // the variable that has no value yet, or empty
}

// payload returns the file of the payload with the content.
func (w *wantedFile) payload() api.PayloadFile {
	return api.PayloadFile{Name: w.Source.Payload, Digest: w.Digest, Size: w.Source.Size, URL: w.Source.URL, Path: api.PayloadPath(w.Digest)}
}

// desiredFile returns a file with its content.
func desiredFile(f config.File, secrets config.Secrets, values map[string]string) *wantedFile {
	w := &wantedFile{File: f, digest: f.Digest}
	switch {
	case f.Source.Secret != "":
		w.content = secrets[f.Source.Secret]
		w.digest = config.Digest(w.content)
	case f.Source.Text != nil && f.Source.Expand:
		if w.waits = missingValue(values, *f.Source.Text); w.waits == "" {
			text, err := config.Expand(*f.Source.Text, values)
			if err != nil {
				panic(err) // every variable has a value
			}
			w.content = []byte(text)
			w.digest = config.Digest(w.content)
		}
	case f.Source.Text != nil:
		w.content = []byte(*f.Source.Text)
	}
	return w
}

func (p *planner) removedFiles() {
	wanted := map[string]bool{}
	for _, f := range p.bundle.Document.Files {
		wanted[fold(f.Path)] = true
		p.uselessCredentials(f)
		key := fold(f.Path)
		if r, ours := p.inv.Files[key]; ours && r.Saved && p.done(f) && p.seen.files[key].Kind != FileMissing {
			p.add(step{file: &wantedFile{File: f}}, api.ActionDelete, api.KindFile, f.Path, "is replaced by "+f.UntilFile, config.OnChange{})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.inv.Files)) {
		r := p.inv.Files[key]
		switch {
		case wanted[key]:
		case r.Aside != "":
			p.add(step{}, api.ActionDelete, api.KindFile, r.Path, "is no longer wanted, and what existed before is restored", p.remaining(r.OnChange))
		case p.seen.files[key].Kind == FileRegular:
			p.add(step{}, api.ActionDelete, api.KindFile, r.Path, noLongerWanted, p.remaining(r.OnChange))
		}
	}
	for _, d := range p.bundle.Document.Directories {
		if d.Retention == nil {
			continue
		}
		for _, name := range d.Retention.Excess(p.seen.names[fold(d.Path)]) {
			path := d.Path + `\` + name
			if !wanted[fold(path)] {
				p.add(step{}, api.ActionDelete, api.KindFile, path, "newer files of its kind exist", config.OnChange{})
			}
		}
	}
}

// done reports whether a file is no longer needed.
func (p *planner) done(f config.File) bool {
	if p.joinsWith(f) {
		return p.seen.credentials.Problem == "" && p.inv.Files[fold(f.Path)].Done == f.Digest
	}
	return f.UntilFile != "" && p.seen.until[fold(f.UntilFile)]
}

func (p *planner) directories() {
	access := map[string]config.Access{}
	for _, d := range p.bundle.Document.Directories {
		access[fold(d.Path)] = d.Access
	}
	for _, path := range wantedDirectories(&p.bundle.Document) {
		info, want := p.seen.directories[fold(path)], access[fold(path)]
		switch {
		case info.Kind == FileMissing:
			p.add(step{directory: want}, api.ActionCreate, api.KindDirectory, path, "is missing", config.OnChange{})
		case info.Kind != FileDirectory:
			p.conflicts = append(p.conflicts, fmt.Errorf("%s is not a directory", path))
		case !info.Access.Includes(want):
			p.add(step{directory: want}, api.ActionUpdate, api.KindDirectory, path, tooMuchAccess(want), config.OnChange{})
		}
	}
}

// tooMuchAccess is why something whose access is to be want is changed.
func tooMuchAccess(want config.Access) string {
	if want == config.AccessAdministratorsWrite {
		return "not only administrators can write to it"
	}
	return "not only administrators have access"
}

// files plans the files that wait for a service, or for none.
func (p *planner) files(after string) {
	for _, f := range p.bundle.Document.Files {
		if strings.EqualFold(f.AfterService, after) && !p.done(f) {
			p.file(desiredFile(f, p.bundle.Secrets, p.seen.values))
		}
	}
}

func (p *planner) file(w *wantedFile) {
	seen := p.seen.files[fold(w.Path)]
	action, reason := api.ActionUpdate, ""
	switch {
	case w.waits != "" && (w.Waiting || p.repairing && w.Network != ""): // see [observer.awaiting]
		return
	case seen.Kind == FileMissing:
		action, reason = api.ActionCreate, "is missing"
	case seen.Kind != FileRegular:
		p.conflicts = append(p.conflicts, fmt.Errorf("%s is not a file", w.Path))
		return
	case w.waits != "":
		reason = "$(" + w.waits + ") has no value yet"
	case seen.digest != w.digest:
		reason = "the content differs"
	case !seen.Access.Includes(w.Access):
		reason = tooMuchAccess(w.Access)
	default:
		return
	}
	needs := ""
	if w.Source.Payload != "" && seen.digest != w.digest {
		needs = w.Digest
	}
	absent := needs != "" && !p.seen.staged[needs]
	onChange := w.OnChange
	if w.Format == config.FormatKubelet && p.impact(onChange) == config.ImpactDrain {
		if why := p.lessForPods(w); why != "" {
			reason += "; " + why
		} else {
			onChange.Impact = config.ImpactRestart
		}
	}
	p.add(step{file: w, afterService: w.AfterService, needs: needs, notNow: absent || w.waits != ""}, action, api.KindFile, w.Path, reason, onChange)
	if absent {
		p.plan.Payload = append(p.plan.Payload, w.payload())
	}
}

// lessForPods says by what in a configuration of the kubelet pods get less than they may have now. Empty: they
// do not.
func (p *planner) lessForPods(w *wantedFile) string {
	before := p.seen.before[fold(w.Path)]
	if len(before) == 0 && p.seen.files[fold(w.Path)].digest != w.digest {
		return "what the kubelet runs with is not known, and it may admit fewer pods"
	}
	// The kubelet runs with none of those that it cannot read, so that a damaged file is repaired as one that is missing.
	usable := slices.DeleteFunc(slices.Clone(before), func(c []byte) bool { return c != nil && kubeletconfig.Unusable(c) })
	if len(usable) == 0 && len(before) > 0 {
		usable = before
	}
	var fields []string
	for _, content := range usable {
		less, err := kubeletconfig.Less(content, w.content)
		if err != nil {
			return "what the kubelet runs with cannot be compared, and it may admit fewer pods"
		}
		fields = append(fields, less...)
	}
	if len(fields) == 0 {
		return ""
	}
	slices.Sort(fields)
	return "pods may get less than before: " + strings.Join(slices.Compact(fields), ", ")
}

// removedDirectories come last, when they are empty, children before parents.
func (p *planner) removedDirectories() {
	wanted := map[string]bool{}
	for _, path := range wantedDirectories(&p.bundle.Document) {
		wanted[fold(path)] = true
	}
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(p.inv.Directories))) {
		if !wanted[key] && p.seen.directories[key].Kind == FileDirectory {
			p.add(step{}, api.ActionDelete, api.KindDirectory, p.inv.Directories[key].Path, noLongerWanted, config.OnChange{})
		}
	}
}
