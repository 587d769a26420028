// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/hostagent/config"
)

// Action is what happens to something on a host.
type Action string

// Actions.
const (
	ActionCreate Action = "Create"
	ActionUpdate Action = "Update"
	ActionDelete Action = "Delete"
)

// Kind is what kind of thing an item is about.
type Kind string

// Kinds of items.
const (
	KindHostname    Kind = "Hostname"
	KindFeature     Kind = "Feature"
	KindEnvironment Kind = "Environment"
	KindCertificate Kind = "Certificate"
	KindDirectory   Kind = "Directory"
	KindFile        Kind = "File"
	KindFirewall    Kind = "FirewallRule"
	KindAntivirus   Kind = "AntivirusExclusion"
	KindService     Kind = "Service"
	KindNetwork     Kind = "HNSNetwork"
	KindEndpoint    Kind = "HNSEndpoint"
)

// Item is one difference between a host and what is desired.
type Item struct {
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	Action Action `json:"action"`
	// Impact is what it costs now: restarting a service that does not run costs nothing.
	Impact config.Impact `json:"impact"`
	// Services are restarted for it; those that depend on them are in [Plan.Restarts] only.
	Services []string `json:"services,omitempty"`
	// Reason says what differs. It has no contents and no values.
	Reason string `json:"reason"`
}

func (i Item) String() string { return fmt.Sprintf("%s %s %s", i.Action, i.Kind, i.Name) }

// PayloadFile is a file of the payload that a host needs and does not have.
type PayloadFile struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Size   int64  `json:"size,omitempty"`
	URL    string `json:"url,omitempty"`
	// Path is where it is to be put, see [PayloadPath].
	Path string `json:"path"`
}

// Plan is the difference between a host and what is desired.
type Plan struct {
	Revision string `json:"revision"`
	// Impact is the greatest one of the items.
	Impact config.Impact `json:"impact"`
	// Items in the order in which they are done. Empty: there is nothing to do.
	Items []Item `json:"items"`
	// Restarts are the services that are stopped for the items, in that order.
	Restarts []string `json:"restarts,omitempty"`
	// Payload has what has to be on the host before the plan is carried out.
	Payload []PayloadFile `json:"payload,omitempty"`
	// Reboot says why the host has to be restarted before anything else is done. The
	// items are what is known to follow.
	Reboot []string `json:"reboot,omitempty"`
}

// Impacts in the order of what they cost.
var impacts = []config.Impact{config.ImpactNone, config.ImpactRestart, config.ImpactDrain, config.ImpactReboot}

// costlier says whether an impact is greater than another one.
func costlier(a, b config.Impact) bool { return slices.Index(impacts, a) > slices.Index(impacts, b) }

// plan is a Plan with what is needed to carry it out.
type plan struct {
	Plan
	steps []step // one for each item
	left  []Item // what is kept out
}

// step is an item and the desired state that it leads to. What is not about its kind is
// the zero value.
type step struct {
	Item
	file        *wantedFile
	directory   config.Access
	service     *config.Service
	environment *string // nil: the variable is removed
	onChange    config.OnChange
	certificate *config.Certificate
	rule        *config.FirewallRule
	endpoint    *config.HNSEndpoint
	// afterService is the service that has to run first. Empty: none.
	afterService string
	// notNow says that something is missing that others have to provide first.
	notNow bool
}

// wantedFile is a file with its content.
type wantedFile struct {
	config.File
	content []byte // nil for a file of the payload
	digest  string // SHA-256 of the content
	waits   string // the variable that has no value yet, or empty
}

// payload is the file of the payload that has the content.
func (w *wantedFile) payload() PayloadFile {
	return PayloadFile{Name: w.Source.Payload, Digest: w.Digest, Size: w.Source.Size, URL: w.Source.URL, Path: PayloadPath(w.Digest)}
}

// wantFile finds the content of a file.
func wantFile(f config.File, secrets config.Secrets, values map[string]string) *wantedFile {
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

// missingValue is the first variable in the texts that has no value, or empty.
func missingValue(values map[string]string, texts ...string) string {
	for _, text := range texts {
		for _, name := range config.References(text) {
			if _, ok := values[name]; !ok {
				return name
			}
		}
	}
	return ""
}

// planner compares what is desired with what is there.
type planner struct {
	bundle *config.Bundle
	seen   *observation
	inv    *inventory
	// except is a service that is left alone.
	except string
	// healing keeps what costs more than a restart of services out of the plan, and what
	// cannot be done at once.
	healing bool

	plan      plan
	conflicts []error
}

// ConflictError says that something on a host is in the way and is not ours.
type ConflictError struct{ Err error }

func (e *ConflictError) Error() string {
	return "something on the host is in the way: " + e.Err.Error()
}
func (e *ConflictError) Unwrap() error { return e.Err }

// diff returns what has to be done for a host to be as the bundle says. It changes
// neither the observation nor the inventory.
func (p *planner) diff() (*plan, error) {
	revision, err := p.bundle.Document.Revision()
	if err != nil {
		return nil, err
	}
	p.plan.Revision, p.plan.Impact, p.plan.Items = revision, config.ImpactNone, []Item{}
	// What a restart of the host may be for.
	p.hostname()
	p.features()
	p.environment()
	p.certificates()
	// What is no longer wanted, from the top down.
	p.removedServices()
	p.removedNetworks()
	p.removedFiles()
	p.removedRules()
	// What is wanted, from the bottom up.
	p.directories()
	p.files("")
	p.rules()
	p.services()
	p.removedDirectories()
	if len(p.conflicts) > 0 {
		return nil, &ConflictError{errors.Join(p.conflicts...)}
	}
	p.finish()
	return &p.plan, nil
}

// add adds a step whose impact is what a document says, or what is left of it here.
func (p *planner) add(s step, action Action, kind Kind, name, reason string, o config.OnChange) {
	s.onChange = o
	s.Item = Item{Kind: kind, Name: name, Action: action, Reason: reason, Impact: p.impact(o)}
	if s.Impact == config.ImpactRestart || s.Impact == config.ImpactDrain {
		s.Services = slices.Clone(o.Services)
	}
	p.plan.steps = append(p.plan.steps, s)
}

// impact is what a change costs on this host. On a host that is not configured yet there
// is nothing to restart and nothing to drain. Containers go on when their runtime has
// stopped, so that alone makes no drain needless.
func (p *planner) impact(o config.OnChange) config.Impact {
	if o.Impact != config.ImpactRestart && o.Impact != config.ImpactDrain || len(o.Services) == 0 {
		return cmp.Or(o.Impact, config.ImpactNone)
	}
	for _, name := range p.withDependents(o.Services) {
		s := p.seen.services[fold(name)]
		if s != nil && (o.Impact == config.ImpactDrain || s.State != ServiceStopped) {
			return o.Impact
		}
	}
	return config.ImpactNone
}

// order is all services that are or shall be ours, each after those it depends on as far
// as the document and the inventory tell.
func (p *planner) order() []serviceRecord {
	var list []serviceRecord
	for _, s := range p.bundle.Document.Services {
		list = append(list, serviceRecord{Name: s.Name, Dependencies: s.Dependencies, OnChange: s.OnChange})
	}
	for _, r := range p.inv.Services {
		if !slices.ContainsFunc(list, func(o serviceRecord) bool { return strings.EqualFold(o.Name, r.Name) }) {
			list = append(list, r)
		}
	}
	return list
}

// withDependents adds to services all that depend on them, now or by the document.
func (p *planner) withDependents(services []string) []string {
	all := slices.Clone(services)
	has := func(name string) bool {
		return slices.ContainsFunc(all, func(s string) bool { return strings.EqualFold(s, name) })
	}
	for again := true; again; {
		again = false
		for _, s := range p.order() {
			dependencies := s.Dependencies
			if now := p.seen.services[fold(s.Name)]; now != nil {
				dependencies = append(slices.Clone(dependencies), now.Settings.Dependencies...)
			}
			if !has(s.Name) && slices.ContainsFunc(dependencies, has) {
				all = append(all, s.Name)
				again = true
			}
		}
	}
	return all
}

func (p *planner) hostname() {
	want := p.bundle.Document.Hostname
	if want == "" || strings.EqualFold(p.seen.nextHostname, want) {
		if want != "" && !strings.EqualFold(p.seen.hostname, want) {
			p.plan.Reboot = append(p.plan.Reboot, "the host gets its name "+want)
		}
		return
	}
	p.add(step{}, ActionUpdate, KindHostname, want, "the host is called "+p.seen.nextHostname, config.OnChange{Impact: config.ImpactReboot})
}

func (p *planner) features() {
	for _, f := range p.bundle.Document.Features {
		switch p.seen.features[f.Name] {
		case FeatureEnabled:
		case FeaturePending:
			p.plan.Reboot = append(p.plan.Reboot, "feature "+f.Name+" is being enabled")
		default:
			p.add(step{}, ActionCreate, KindFeature, f.Name, "is not enabled", f.OnChange)
		}
	}
}

func (p *planner) environment() {
	desired, onChange := map[string]string{}, map[string]config.OnChange{}
	for _, v := range p.bundle.Document.Environment {
		desired[v.Name] = environmentValue(p.bundle, v)
		onChange[strings.ToUpper(v.Name)] = v.OnChange
	}
	existing := map[string]string{}
	for name, value := range p.seen.environment {
		existing[strings.ToUpper(name)] = value
	}
	changes, _ := config.EnvironmentChanges(desired, existing, p.inv.owned(existing))
	for _, c := range changes {
		key := strings.ToUpper(c.Name)
		_, exists := existing[key]
		name := c.Name
		o, wanted := onChange[key]
		if !wanted {
			// It is gone or gets back what it was before us.
			record := p.inv.Environment[key]
			name, o = record.Name, p.stillThere(record.OnChange)
		}
		s := step{environment: c.Value}
		switch {
		case !wanted && c.Value != nil:
			p.add(s, ActionDelete, KindEnvironment, name, "is no longer wanted and gets back its value from before", o)
		case !wanted:
			p.add(s, ActionDelete, KindEnvironment, name, "is no longer wanted", o)
		case exists:
			p.add(s, ActionUpdate, KindEnvironment, name, "the value differs", o)
		default:
			p.add(s, ActionCreate, KindEnvironment, name, "is missing", o)
		}
	}
}

func environmentValue(b *config.Bundle, v config.EnvironmentVariable) string {
	if v.Secret != "" {
		return string(b.Secrets[v.Secret])
	}
	return v.Value
}

// owned are the variables that are ours. After a crash a host may have the value from
// before the last change of ours, which is ours too.
func (inv *inventory) owned(existing map[string]string) map[string]config.OwnedVariable {
	owned := map[string]config.OwnedVariable{}
	for key, r := range inv.Environment {
		o := r.OwnedVariable
		if now, ok := existing[key]; ok && r.Previous != nil && now == *r.Previous {
			o.Value = now
		}
		owned[key] = o
	}
	return owned
}

// stillThere is what follows when something goes, without services that are gone.
func (p *planner) stillThere(o config.OnChange) config.OnChange {
	if o.Impact != config.ImpactRestart && o.Impact != config.ImpactDrain || len(o.Services) == 0 {
		return o
	}
	left := slices.DeleteFunc(slices.Clone(o.Services), func(name string) bool {
		return !slices.ContainsFunc(p.bundle.Document.Services, func(s config.Service) bool { return strings.EqualFold(s.Name, name) })
	})
	if len(left) == 0 {
		return config.OnChange{Impact: config.ImpactNone}
	}
	return config.OnChange{Impact: o.Impact, Services: left}
}

func (p *planner) certificates() {
	wanted := map[string]bool{}
	for i, c := range p.bundle.Document.Certificates {
		key := certificateKey(c.Store, c.Fingerprint)
		wanted[key] = true
		if !p.seen.certs[key] {
			p.add(step{certificate: &p.bundle.Document.Certificates[i]}, ActionCreate, KindCertificate, c.Fingerprint, "is not in store "+c.Store, c.OnChange)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.inv.Certs)) {
		r := p.inv.Certs[key]
		if !wanted[key] && p.seen.certs[key] {
			c := &config.Certificate{Store: r.Store, Fingerprint: r.Fingerprint}
			p.add(step{certificate: c}, ActionDelete, KindCertificate, r.Fingerprint, "is no longer wanted in store "+r.Store, p.stillThere(r.OnChange))
		}
	}
}

// der is the content of a certificate, which was validated.
func der(c *config.Certificate) []byte {
	block, _ := pem.Decode([]byte(c.PEM))
	return block.Bytes
}

func (p *planner) removedServices() {
	for _, r := range slices.Backward(p.inv.Services) {
		wanted := slices.ContainsFunc(p.bundle.Document.Services, func(s config.Service) bool { return strings.EqualFold(s.Name, r.Name) })
		if wanted || p.seen.services[fold(r.Name)] == nil || strings.EqualFold(r.Name, p.except) {
			continue
		}
		o := r.OnChange
		o.Services = nil
		if o.Impact == config.ImpactRestart || o.Impact == config.ImpactDrain {
			o.Services = []string{r.Name}
		}
		p.add(step{}, ActionDelete, KindService, r.Name, "is no longer wanted", o)
	}
}

func (p *planner) removedNetworks() {
	hns := p.bundle.Document.HNS
	for _, name := range slices.Sorted(maps.Keys(p.inv.Endpoints)) {
		if (hns == nil || hns.Endpoint == nil || hns.Endpoint.Name != name) && p.seen.endpoints[name] {
			p.add(step{}, ActionDelete, KindEndpoint, name, "is no longer wanted", config.OnChange{})
		}
	}
	for _, name := range p.inv.Networks {
		if (hns == nil || !slices.Contains(hns.Networks, name)) && p.seen.networks[name] {
			p.add(step{}, ActionDelete, KindNetwork, name, "is no longer wanted", config.OnChange{})
		}
	}
}

func (p *planner) removedFiles() {
	wanted := map[string]bool{}
	for _, f := range p.bundle.Document.Files {
		wanted[fold(f.Path)] = true
		key := fold(f.Path)
		if r, ours := p.inv.Files[key]; ours && r.Saved && p.done(f) && p.seen.files[key].Kind != FileMissing {
			p.add(step{file: &wantedFile{File: f}}, ActionDelete, KindFile, f.Path, f.UntilFile+" took its place", config.OnChange{})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.inv.Files)) {
		r := p.inv.Files[key]
		switch {
		case wanted[key]:
		case r.Aside != "":
			p.add(step{}, ActionDelete, KindFile, r.Path, "is no longer wanted and gives way to what was there before", p.stillThere(r.OnChange))
		case p.seen.files[key].Kind == FileRegular:
			p.add(step{}, ActionDelete, KindFile, r.Path, "is no longer wanted", p.stillThere(r.OnChange))
		}
	}
	for _, d := range p.bundle.Document.Directories {
		if d.Retention == nil {
			continue
		}
		for _, name := range d.Retention.Excess(p.seen.names[fold(d.Path)]) {
			path := d.Path + `\` + name
			if !wanted[fold(path)] {
				p.add(step{}, ActionDelete, KindFile, path, "newer files of its kind are there", config.OnChange{})
			}
		}
	}
}

// done says whether a file is needed no more.
func (p *planner) done(f config.File) bool {
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
			p.add(step{directory: want}, ActionCreate, KindDirectory, path, "is missing", config.OnChange{})
		case info.Kind != FileDirectory:
			p.conflicts = append(p.conflicts, fmt.Errorf("%s is no directory", path))
		case want == config.AccessAdministrators && info.Access != want:
			p.add(step{directory: want}, ActionUpdate, KindDirectory, path, "others than administrators have access", config.OnChange{})
		}
	}
}

// files compares the files that wait for a service, or for none.
func (p *planner) files(after string) {
	for _, f := range p.bundle.Document.Files {
		if strings.EqualFold(f.AfterService, after) && !p.done(f) {
			p.file(wantFile(f, p.bundle.Secrets, p.seen.values))
		}
	}
}

func (p *planner) file(w *wantedFile) {
	seen := p.seen.files[fold(w.Path)]
	action, reason := ActionUpdate, ""
	switch {
	case seen.Kind == FileMissing:
		action, reason = ActionCreate, "is missing"
	case seen.Kind != FileRegular:
		p.conflicts = append(p.conflicts, fmt.Errorf("%s is no file", w.Path))
		return
	case w.waits != "":
		reason = "$(" + w.waits + ") has no value yet"
	case seen.digest != w.digest:
		reason = "the content differs"
	case w.Access == config.AccessAdministrators && seen.Access != w.Access:
		reason = "others than administrators have access"
	default:
		return
	}
	s := w.Source
	absent := s.Payload != "" && !p.seen.staged[w.Digest] && seen.digest != w.digest
	p.add(step{file: w, afterService: w.AfterService, notNow: absent || w.waits != ""}, action, KindFile, w.Path, reason, w.OnChange)
	if absent {
		p.plan.Payload = append(p.plan.Payload, w.payload())
	}
}

func (p *planner) rules() {
	for i, r := range p.bundle.Document.Firewall {
		s := step{rule: &p.bundle.Document.Firewall[i]}
		switch seen := p.seen.firewall[fold(r.Name)]; {
		case seen == nil:
			p.add(s, ActionCreate, KindFirewall, r.Name, "is missing", config.OnChange{})
		case *seen != normalRule(r):
			p.add(s, ActionUpdate, KindFirewall, r.Name, "differs", config.OnChange{})
		}
	}
	for _, program := range p.bundle.Document.AntivirusExclusions {
		if !p.seen.exclusions[fold(program)] {
			p.add(step{}, ActionCreate, KindAntivirus, program, "is missing", config.OnChange{})
		}
	}
}

// normalRule is a rule as a [System] reads it.
func normalRule(r config.FirewallRule) config.FirewallRule {
	r.DisplayName = cmp.Or(r.DisplayName, r.Name)
	return r
}

func (p *planner) removedRules() {
	for _, key := range slices.Sorted(maps.Keys(p.inv.Firewall)) {
		name := p.inv.Firewall[key].Name
		wanted := slices.ContainsFunc(p.bundle.Document.Firewall, func(r config.FirewallRule) bool { return strings.EqualFold(r.Name, name) })
		if !wanted && p.seen.firewall[key] != nil {
			p.add(step{}, ActionDelete, KindFirewall, name, "is no longer wanted", config.OnChange{})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.inv.Exclusions)) {
		program := p.inv.Exclusions[key]
		wanted := slices.ContainsFunc(p.bundle.Document.AntivirusExclusions, func(s string) bool { return strings.EqualFold(s, program) })
		if !wanted && p.seen.exclusions[key] {
			p.add(step{}, ActionDelete, KindAntivirus, program, "is no longer wanted", config.OnChange{})
		}
	}
}

// services compares the services in the order of their start, each followed by the files
// that wait for it.
func (p *planner) services() {
	for i := range p.bundle.Document.Services {
		s := &p.bundle.Document.Services[i]
		if !strings.EqualFold(s.Name, p.except) {
			p.service(s)
		}
		files := slices.ContainsFunc(p.bundle.Document.Files, func(f config.File) bool { return strings.EqualFold(f.AfterService, s.Name) })
		if files && p.bundle.Document.HNS != nil {
			p.endpoint(s.Name)
		}
		p.files(s.Name)
	}
}

func (p *planner) service(s *config.Service) {
	seen := p.seen.services[fold(s.Name)]
	waits := missingValue(p.seen.values, s.Arguments...)
	if seen == nil {
		reason := "is missing"
		if waits != "" {
			reason += ", and $(" + waits + ") has no value yet"
		}
		p.add(step{service: s, notNow: waits != ""}, ActionCreate, KindService, s.Name, reason, s.OnChange)
		return
	}
	if _, ours := p.record(s.Name); !ours && !strings.HasPrefix(seen.Settings.Description, config.DescriptionTag) {
		p.conflicts = append(p.conflicts, fmt.Errorf("there is a service %s that is not ours", s.Name))
		return
	}
	if waits != "" {
		p.add(step{service: s, notNow: true}, ActionUpdate, KindService, s.Name, "$("+waits+") has no value yet", s.OnChange)
		return
	}
	if reason := serviceDifference(s, seen, p.seen.values); reason != "" {
		p.add(step{service: s}, ActionUpdate, KindService, s.Name, reason, s.OnChange)
	} else if seen.State != ServiceRunning {
		p.add(step{service: s}, ActionUpdate, KindService, s.Name, "is not running", config.OnChange{})
	}
}

func (p *planner) record(name string) (serviceRecord, bool) {
	return (&store{inventory: p.inv}).service(name)
}

// serviceDifference says what differs between a service and its document, or nothing.
// The values of its variables are known.
func serviceDifference(s *config.Service, seen *Service, values map[string]string) string {
	want, err := s.Settings(values)
	if err != nil {
		return err.Error()
	}
	switch {
	case seen.Settings.CommandLine != want.CommandLine:
		return "the command line differs"
	case !seen.Settings.Equal(want):
		return "the settings differ"
	case !seen.RecoveryUnknown && !sameRecovery(s.Recovery, seen.Recovery):
		return "the recovery actions differ"
	}
	return ""
}

func sameRecovery(a, b *config.Recovery) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ResetAfterSeconds == b.ResetAfterSeconds && slices.Equal(a.RestartDelaysMilliseconds, b.RestartDelaysMilliseconds)
}

// endpoint compares the endpoint, which the first file that waits for a service may need.
func (p *planner) endpoint(after string) {
	e := p.bundle.Document.HNS.Endpoint
	if e == nil || p.seen.endpoints[e.Name] || slices.ContainsFunc(p.plan.steps, func(s step) bool { return s.Kind == KindEndpoint && s.Name == e.Name }) {
		return
	}
	p.add(step{endpoint: e, afterService: after, notNow: !p.seen.networks[e.Network]}, ActionCreate, KindEndpoint, e.Name, "is missing", config.OnChange{})
}

// removedDirectories come last, when what was in them is gone, the lowest first.
func (p *planner) removedDirectories() {
	wanted := map[string]bool{}
	for _, path := range wantedDirectories(&p.bundle.Document) {
		wanted[fold(path)] = true
	}
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(p.inv.Directories))) {
		if !wanted[key] && p.seen.directories[key].Kind == FileDirectory {
			p.add(step{}, ActionDelete, KindDirectory, p.inv.Directories[key].Path, "is no longer wanted", config.OnChange{})
		}
	}
}

// finish unites the impacts.
func (p *planner) finish() {
	var restarted []string
	if p.healing {
		p.plan.steps = slices.DeleteFunc(p.plan.steps, func(s step) bool {
			keepOut := s.notNow || costlier(s.Impact, config.ImpactRestart)
			if keepOut {
				p.plan.left = append(p.plan.left, s.Item)
			}
			return keepOut
		})
	}
	for _, s := range p.plan.steps {
		p.plan.Items = append(p.plan.Items, s.Item)
		if costlier(s.Impact, p.plan.Impact) {
			p.plan.Impact = s.Impact
		}
		if s.onChange.Impact == config.ImpactRestart || s.onChange.Impact == config.ImpactDrain {
			restarted = append(restarted, s.onChange.Services...)
		}
	}
	restarted = p.withDependents(restarted)
	for _, s := range slices.Backward(p.order()) {
		seen := p.seen.services[fold(s.Name)]
		named := slices.ContainsFunc(restarted, func(name string) bool { return strings.EqualFold(s.Name, name) })
		if named && seen != nil && seen.State != ServiceStopped && !strings.EqualFold(s.Name, p.except) {
			p.plan.Restarts = append(p.plan.Restarts, s.Name)
		}
	}
	if r := p.inv.Reboot; r != nil && r.Boot == p.seen.boot {
		p.plan.Reboot = append(slices.Clone(r.Reasons), p.plan.Reboot...)
		slices.Sort(p.plan.Reboot)
		p.plan.Reboot = slices.Compact(p.plan.Reboot)
	}
}
