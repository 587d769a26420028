// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// hexDigest is a SHA-256 in lower-case hexadecimal digits.
	hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// serviceName is stricter than the service control manager, which forbids slashes only.
	serviceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$`)
	// hostname is a host name that is a NetBIOS name too.
	hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,13}[A-Za-z0-9])?$`)
	// featureName is the name of an optional feature.
	featureName = regexp.MustCompile(`^[A-Za-z0-9-]{1,128}$`)
	// environmentName is the name of a variable of the machine.
	environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Validate returns everything that is wrong with the document, or nil. Whoever applies
// a document validates it before anything else, so that a mistake changes nothing.
func (d *Document) Validate() error {
	v := validator{document: d}
	if d.Version != SchemaVersion {
		v.errorf("version %d is not %d", d.Version, SchemaVersion)
	}
	if d.Hostname != "" && !hostname.MatchString(d.Hostname) {
		v.errorf("host name %q is no NetBIOS name", d.Hostname)
	}
	v.features()
	v.directories()
	v.files()
	v.environment()
	v.certificates()
	v.firewall()
	v.hns()
	v.variables()
	v.services()
	v.clientCertificate()
	v.others()
	return errors.Join(v.errs...)
}

// validator collects what is wrong with a document.
type validator struct {
	document *Document
	errs     []error
}

func (v *validator) errorf(format string, values ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, values...))
}

func (v *validator) add(what string, err error) {
	if err != nil {
		v.errs = append(v.errs, fmt.Errorf("%s: %w", what, err))
	}
}

// unique reports names of one kind that are listed twice. Windows ignores case.
func unique(v *validator, kind string) func(name string) {
	seen := map[string]bool{}
	return func(name string) {
		if key := strings.ToLower(name); seen[key] {
			v.errorf("%s %s is listed twice", kind, name)
		} else {
			seen[key] = true
		}
	}
}

func (v *validator) onChange(what string, o OnChange) {
	switch o.Impact {
	case ImpactNone, ImpactReboot:
		if len(o.Services) > 0 {
			v.errorf("%s: impact %s takes no services", what, o.Impact)
		}
	case ImpactRestart, ImpactDrain:
		for _, name := range o.Services {
			if !slices.ContainsFunc(v.document.Services, func(s Service) bool { return s.Name == name }) {
				v.errorf("%s: service %s, which it restarts, is not in the document", what, name)
			}
		}
	default:
		v.errorf("%s: impact %q is not known", what, o.Impact)
	}
}

func (v *validator) access(what string, a Access) {
	switch a {
	case AccessInherited, AccessAdministrators, AccessAdministratorsWrite:
	default:
		v.errorf("%s: access %q is not known", what, a)
	}
}

func (v *validator) features() {
	once := unique(v, "feature")
	for _, f := range v.document.Features {
		once(f.Name)
		if !featureName.MatchString(f.Name) {
			v.errorf("feature %q has no valid name", f.Name)
		}
		v.onChange("feature "+f.Name, f.OnChange)
	}
}

func (v *validator) directories() {
	once := unique(v, "directory")
	for _, dir := range v.document.Directories {
		what := "directory " + dir.Path
		once(dir.Path)
		v.add("directory", checkOwnPath(dir.Path))
		v.access(what, dir.Access)
		if r := dir.Retention; r != nil {
			if _, err := path.Match(r.Pattern, ""); err != nil || r.Pattern == "" || strings.ContainsAny(r.Pattern, `/\`) {
				v.errorf("%s: pattern %q is not valid", what, r.Pattern)
			}
			if r.Keep < 1 {
				v.errorf("%s: at least one file is kept, not %d", what, r.Keep)
			}
		}
	}
}

func (v *validator) files() {
	once := unique(v, "file")
	secret := unique(v, "secret")
	for _, f := range v.document.Files {
		what := "file " + f.Path
		once(f.Path)
		v.add("file", checkOwnPath(f.Path))
		if f.UntilFile != "" {
			v.add(what, checkOwnPath(f.UntilFile))
		}
		if f.AfterService != "" {
			v.after(what, f)
		}
		if !slices.Contains([]Role{RoleProgram, RoleConfiguration, RoleCredential, RoleCertificate}, f.Role) {
			v.errorf("%s: role %q is not known", what, f.Role)
		}
		v.foreign(what, f.Network)
		v.access(what, f.Access)
		v.onChange(what, f.OnChange)
		v.source(what, f)
		switch {
		case f.Format == "":
		case f.Format != FormatKubelet:
			v.errorf("%s: format %q is not known", what, f.Format)
		case f.Source.Text == nil || f.Source.Expand:
			v.errorf("%s: only text that is the same on every host is compared", what)
		}
		if f.Source.Secret != "" {
			secret(f.Source.Secret)
			if f.Access != AccessAdministrators {
				v.errorf("%s: a secret is for administrators only", what)
			}
		}
	}
}

// after checks that the services that are restarted for a file start after the one
// that the file waits for.
func (v *validator) after(what string, f File) {
	position := func(name string) int {
		return slices.IndexFunc(v.document.Services, func(s Service) bool { return s.Name == name })
	}
	at := position(f.AfterService)
	if at < 0 {
		v.errorf("%s: service %s, which it waits for, is not in the document", what, f.AfterService)
		return
	}
	for _, name := range f.OnChange.Services {
		if i := position(name); i >= 0 && i <= at {
			v.errorf("%s: service %s needs it and starts before %s, which it waits for", what, name, f.AfterService)
		}
	}
}

// source checks where the content of a file comes from, and its digest.
func (v *validator) source(what string, f File) {
	kinds := 0
	for _, set := range []bool{f.Source.Payload != "", f.Source.Text != nil, f.Source.Secret != ""} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		v.errorf("%s: exactly one of payload, text and secret is set, not %d", what, kinds)
		return
	}
	if f.Source.Payload == "" && (f.Source.Size != 0 || f.Source.URL != "") {
		v.errorf("%s: only a file of the payload has size and URL", what)
	}
	if f.Source.Size < 0 {
		v.errorf("%s: size %d is negative", what, f.Source.Size)
	}
	if f.Source.Expand && f.Source.Text == nil {
		v.errorf("%s: only text is expanded", what)
	}
	prefix := digestPrefix
	if f.Source.Secret != "" {
		prefix = keyedDigestPrefix
	}
	v.digest(what, f.Digest, prefix)
	if f.Source.Text != nil && f.Digest != Digest([]byte(*f.Source.Text)) {
		v.errorf("%s: the digest is not that of its text", what)
	}
	if f.Source.Expand && f.Source.Text != nil {
		v.references(what, *f.Source.Text)
	}
}

func (v *validator) digest(what, digest, prefix string) {
	if err := checkDigest(digest, prefix); err != nil {
		v.errorf("%s: %w", what, err)
	}
}

// CheckDigest returns why something is not the digest of a content, see [Digest].
func CheckDigest(digest string) error { return checkDigest(digest, digestPrefix) }

func checkDigest(digest, prefix string) error {
	if text, ok := strings.CutPrefix(digest, prefix); !ok || !hexDigest.MatchString(text) {
		return fmt.Errorf("digest %q is not %s and 64 hexadecimal digits", digest, prefix)
	}
	return nil
}

// references checks that each variable in text has a value.
func (v *validator) references(what, text string) {
	for _, name := range References(text) {
		if !slices.ContainsFunc(v.document.Variables, func(x Variable) bool { return x.Name == name }) {
			v.errorf("%s: variable %s is not in the document", what, name)
		}
	}
}

// clientCertificate checks that the document has the certificates that it is verified with.
func (v *validator) clientCertificate() {
	c := v.document.ClientCertificate
	if c == nil {
		return
	}
	const what = "client certificate of the kubelet"
	v.add(what, checkOwnPath(c.Path))
	v.add(what, checkOwnPath(c.Kubeconfig))
	for _, path := range []string{c.CAFile, c.ServerCAFile} {
		if _, ok := v.document.Text(path); !ok {
			v.errorf("%s: file %s, by which it is verified, is not in the document", what, path)
		}
	}
	v.references(what, c.NodeName)
}

func (v *validator) environment() {
	once := unique(v, "environment variable")
	for _, e := range v.document.Environment {
		what := "environment variable " + e.Name
		once(e.Name)
		if !environmentName.MatchString(e.Name) {
			v.errorf("environment variable %q has no valid name", e.Name)
		}
		switch {
		case (e.Value == "") == (e.Secret == ""):
			v.errorf("%s: exactly one of value and secret is set", what)
		case e.Secret != "":
			v.digest(what, e.Digest, keyedDigestPrefix)
		case e.Digest != "":
			v.errorf("%s: only a secret has a digest", what)
		}
		if strings.ContainsAny(e.Value, "\x00\r\n") {
			v.errorf("%s: the value has more than one line", what)
		}
		v.onChange(what, e.OnChange)
	}
}

func (v *validator) certificates() {
	once := unique(v, "certificate")
	for _, c := range v.document.Certificates {
		what := "certificate " + c.Fingerprint
		once(c.Store + "/" + c.Fingerprint)
		if c.Store != StoreRoot {
			v.errorf("%s: store %q is not supported", what, c.Store)
		}
		v.add(what, checkCertificate(c))
		v.onChange(what, c.OnChange)
	}
}

func checkCertificate(c Certificate) error {
	block, rest := pem.Decode([]byte(c.PEM))
	if block == nil || block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" {
		return errors.New("is not one certificate in PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("cannot be parsed: %w", err)
	}
	if Fingerprint(block.Bytes) != c.Fingerprint {
		return errors.New("the fingerprint is that of another one")
	}
	return nil
}

func (v *validator) firewall() {
	once := unique(v, "firewall rule")
	for _, rule := range v.document.Firewall {
		once(rule.Name)
		if !serviceName.MatchString(rule.Name) {
			v.errorf("firewall rule %q has no valid name", rule.Name)
		}
		if rule.Protocol != ProtocolTCP && rule.Protocol != ProtocolUDP {
			v.errorf("firewall rule %s: protocol %q is not known", rule.Name, rule.Protocol)
		}
		if rule.Port == 0 {
			v.errorf("firewall rule %s has no port", rule.Name)
		}
	}
}

func (v *validator) hns() {
	hns := v.document.HNS
	if hns == nil {
		return
	}
	once := unique(v, "network")
	for _, name := range hns.Networks {
		once(name)
		if name == "" {
			v.errorf("a network has no name")
		}
	}
	for _, name := range hns.Foreign {
		once(name)
		if name == "" {
			v.errorf("a network has no name")
		}
	}
	if e := hns.Endpoint; e != nil && (e.Name == "" || !hns.has(e.Network)) {
		v.errorf("endpoint %q is in network %q, which is not in the document", e.Name, e.Network)
	}
	if k := hns.Keep; k != nil {
		what := "argument " + k.Name + ", which networks keep"
		if k.Name == "" || !slices.ContainsFunc(v.document.Services, func(s Service) bool { return s.Name == k.Service }) {
			v.errorf("%s: service %q is not in the document, or the argument has no name", what, k.Service)
		}
		for _, path := range k.Programs {
			v.add(what, CheckPath(path))
		}
		v.onChange(what, k.OnChange)
	}
}

// foreign checks that something waits for no network but those that others make.
func (v *validator) foreign(what, network string) {
	if network != "" && !v.document.HNS.IsForeign(network) {
		v.errorf("%s: network %q, which it waits for, is not one that others make", what, network)
	}
}

func (v *validator) variables() {
	once := unique(v, "variable")
	for _, x := range v.document.Variables {
		once(x.Name)
		if !variableName.MatchString(x.Name) {
			v.errorf("variable %q has no valid name", x.Name)
		}
		if x.Value != "" && x.Source != SourceValue {
			v.errorf("variable %s: its value comes from the host", x.Name)
		}
		for _, a := range x.Preferred {
			if address, err := netip.ParseAddr(a); err != nil || !address.Is4() || x.Source != SourceDefaultRouteAddress {
				v.errorf("variable %s: %q cannot be preferred", x.Name, a)
			}
		}
		switch x.Source {
		case SourceValue:
			if x.Value == "" || strings.ContainsAny(x.Value, "\x00\r\n") {
				v.errorf("variable %s has no value of one line", x.Name)
			}
		case SourceKept, SourceDefaultRouteAddress, SourceHostname, SourceFQDN, SourceAWSLocalHostname, SourceGCPHostname:
		case SourceHNSSubnet, SourceHNSManagementAddress, SourceHNSEndpointAddress:
			if !v.document.HNS.has(x.Network) {
				v.errorf("variable %s: network %q is not in the document", x.Name, x.Network)
			}
			if x.Source == SourceHNSEndpointAddress && (v.document.HNS == nil || v.document.HNS.Endpoint == nil) {
				v.errorf("variable %s: there is no endpoint in the document", x.Name)
			}
			continue
		default:
			v.errorf("variable %s: source %q is not known", x.Name, x.Source)
		}
		if x.Network != "" {
			v.errorf("variable %s takes no network", x.Name)
		}
	}
}

func (v *validator) services() {
	once := unique(v, "service")
	position := map[string]int{}
	for i, s := range v.document.Services {
		once(s.Name)
		position[s.Name] = i
	}
	for i, s := range v.document.Services {
		what := "service " + s.Name
		if !serviceName.MatchString(s.Name) {
			v.errorf("service %q has no valid name", s.Name)
		}
		if s.Description != Description(s.Name) {
			v.errorf("%s: description %q does not mark it as ours", what, s.Description)
		}
		v.add(what, CheckPath(s.BinaryPath))
		for _, argument := range s.Arguments {
			if strings.ContainsAny(argument, "\x00\r\n") {
				v.errorf("%s: an argument has more than one line", what)
			}
			v.references(what, argument)
		}
		if s.StartType != StartAutomatic && s.StartType != StartManual {
			v.errorf("%s: start type %q is not known", what, s.StartType)
		}
		if s.Priority < 0 {
			v.errorf("%s: priority %d is negative", what, s.Priority)
		}
		for _, dependency := range s.Dependencies {
			at, ours := position[dependency]
			switch {
			case !ours:
			case v.document.Services[at].Waiting && !s.Waiting:
				v.errorf("%s does not wait, and depends on %s, which does", what, dependency)
			case at >= i:
				v.errorf("%s is before %s, which it depends on", what, dependency)
			case s.Bootstrap && !v.document.Services[at].Bootstrap:
				v.errorf("%s makes the host a node and cannot depend on %s, which needs one", what, dependency)
			}
		}
		v.foreign(what, s.Network)
		v.recovery(what, s.Recovery)
		v.health(what, s.Health)
		v.onChange(what, s.OnChange)
	}
}

func (v *validator) recovery(what string, r *Recovery) {
	if r == nil {
		return
	}
	if r.ResetAfterSeconds <= 0 || len(r.RestartDelaysMilliseconds) == 0 {
		v.errorf("%s: recovery needs a time to reset and at least one delay", what)
	}
	for _, delay := range r.RestartDelaysMilliseconds {
		if delay < MinRestartDelay {
			v.errorf("%s: a delay of %d ms before a restart is less than %d", what, delay, MinRestartDelay)
		}
	}
}

func (v *validator) health(what string, h *Health) {
	if h == nil {
		return
	}
	switch {
	case (h.URL == "") == (h.Pipe == ""):
		v.errorf("%s: exactly one of URL and pipe is set for its health", what)
	case h.URL != "" && !strings.HasPrefix(h.URL, "http://127.0.0.1:"):
		v.errorf("%s: health is checked on the host itself, not at %s", what, h.URL)
	case h.Pipe != "" && !strings.HasPrefix(h.Pipe, `\\.\pipe\`):
		v.errorf("%s: %s is no named pipe", what, h.Pipe)
	}
	if h.WithinSeconds <= 0 {
		v.errorf("%s: health needs a time", what)
	}
}

func (v *validator) others() {
	for _, program := range v.document.AntivirusExclusions {
		v.add("antivirus exclusion", checkOwnPath(program))
	}
	generated := unique(v, "generated path")
	for _, path := range v.document.Generated {
		generated(path)
		v.add("generated path", checkOwnPath(path))
	}
	for _, r := range v.document.Routes {
		if !r.IsValid() || r.Bits() == 0 || r != r.Masked() {
			v.errorf("route to %s: it is not the address of a network or a host", r)
		}
	}
	once := unique(v, "log")
	for _, l := range v.document.LogRotation {
		once(l.Path)
		v.add("log rotation", checkOwnPath(l.Path))
		if l.MaxBytes < 0 || l.MaxAgeSeconds < 0 || l.MaxBytes == 0 && l.MaxAgeSeconds == 0 {
			v.errorf("log rotation of %s: %d bytes and %d s are no limits", l.Path, l.MaxBytes, l.MaxAgeSeconds)
		}
	}
	component := unique(v, "component")
	for _, c := range v.document.Components {
		component(c.Name)
	}
}
