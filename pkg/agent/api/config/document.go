// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"net/netip"
	"slices"
	"strings"
)

// SchemaVersion is the version of the schema of [Document]. It grows when a document
// could be misread by an agent that knows only the one before; [Decode] refuses every
// other version.
const SchemaVersion = 1

// Document is the desired configuration of a host. An empty list requests nothing.
// Whatever on a host was not created by an earlier document is never changed.
// The zero value is no valid document: Version is [SchemaVersion].
type Document struct {
	// Version is the version of the schema, [SchemaVersion].
	Version int `json:"version"`
	// Hostname is the computer name that the host is to have. Empty: the one it has.
	Hostname string `json:"hostname,omitempty"`
	// Features are optional features of Windows that must be on. They are never
	// turned off.
	Features []Feature `json:"features,omitempty"`
	// Directories that must exist.
	Directories []Directory `json:"directories,omitempty"`
	// Files that must exist, with their content.
	Files []File `json:"files,omitempty"`
	// Generated are paths of files and directories that the programs of the document make
	// while they run, keys and logs for example. Nothing is created for the list. What did not
	// exist before the document is removed when no document lists it any more, a directory
	// with all its contents.
	Generated []string `json:"generated,omitempty"`
	// Environment are variables of the machine, which every process that starts later
	// inherits. The value before it became ours is restored at removal.
	Environment []EnvironmentVariable `json:"environment,omitempty"`
	// Certificates that must be in the certificate stores of the machine. Only those
	// that did not exist before are ours, and only they are ever removed.
	Certificates []Certificate `json:"certificates,omitempty"`
	// KeepCertificates: those of earlier documents stay in their stores, whether this one lists them or not, because
	// whoever made it could not read all of them.
	KeepCertificates bool `json:"keepCertificates,omitempty"`
	// Firewall are rules that let connections in.
	Firewall []FirewallRule `json:"firewall,omitempty"`
	// HNS is what the Host Networking Service has to do with us. Nil: nothing.
	HNS *HNS `json:"hns,omitempty"`
	// AntivirusExclusions are programs that Microsoft Defender, where it runs, does not
	// scan: scanning makes starting containers many times slower.
	AntivirusExclusions []string `json:"antivirusExclusions,omitempty"`
	// Variables are the values that stand for $(NAME) in arguments and in files.
	Variables []Variable `json:"variables,omitempty"`
	// Services in the order in which they are started: what a service depends on is
	// before it. They are stopped in the opposite order.
	Services []Service `json:"services,omitempty"`
	// Routes are destinations that packets reach by the gateway of the default route. Windows keeps
	// them until the next restart; the agent as a service makes them again.
	Routes []netip.Prefix `json:"routes,omitempty"`
	// LogRotation says which logs the agent rotates, because the programs that write
	// them do not.
	LogRotation []LogRotation `json:"logRotation,omitempty"`
	// ClientCertificate is how the API server knows the kubelet. Nil: nothing is known of it.
	ClientCertificate *ClientCertificate `json:"clientCertificate,omitempty"`
	// Components say which versions of which programs the files are, for people.
	Components []Component `json:"components,omitempty"`
}

// Impact is what a change of a part of the document costs the workload of a host.
type Impact string

// Impacts, from nothing to most.
const (
	// ImpactNone: nothing is interrupted.
	ImpactNone Impact = "None"
	// ImpactRestart: services are restarted; containers keep running.
	ImpactRestart Impact = "Restart"
	// ImpactDrain: containers end, so the Node is drained first.
	ImpactDrain Impact = "Drain"
	// ImpactReboot: the Node is drained and the host is restarted.
	ImpactReboot Impact = "Reboot"
)

// Impacts returns all impacts in the order of what they cost, the cheapest first.
func Impacts() []Impact { return []Impact{ImpactNone, ImpactRestart, ImpactDrain, ImpactReboot} }

// OnChange is what has to follow when a part of the document changes.
type OnChange struct {
	// Impact is what the change costs.
	Impact Impact `json:"impact"`
	// Services are stopped before and started after the change, those that depend on
	// them included. Set for Restart and Drain only.
	Services []string `json:"services,omitempty"`
}

// Access says who may read and write a file or directory.
type Access string

const (
	// AccessInherited is what the directory above grants.
	AccessInherited Access = ""
	// AccessAdministrators grants access to SYSTEM and Administrators only, and
	// inherits nothing.
	AccessAdministrators Access = "Administrators"
	// AccessAdministratorsWrite lets everybody read and run what is there; only SYSTEM and
	// Administrators change it. Inherits nothing. For directories of programs: those run as
	// SYSTEM, and load libraries from beside them.
	AccessAdministratorsWrite Access = "AdministratorsWrite"
)

// Includes says whether whoever has no access by other has none by this one: nothing has to change
// for other where this one is found.
func (a Access) Includes(other Access) bool {
	return other == AccessInherited || a == other || a == AccessAdministrators && other == AccessAdministratorsWrite
}

// Feature is an optional feature of Windows.
type Feature struct {
	// Name as DISM knows it, for example Containers.
	Name     string   `json:"name"`
	OnChange OnChange `json:"onChange"`
}

// Directory is a directory that must exist.
type Directory struct {
	// Path of the directory. Those above it are made too.
	Path   string `json:"path"`
	Access Access `json:"access,omitempty"`
	// Retention keeps files that programs leave behind from filling the disk. Nil:
	// nothing is removed.
	Retention *Retention `json:"retention,omitempty"`
}

// Role says what a file is for.
type Role string

// Roles of files.
const (
	RoleProgram       Role = "Program"
	RoleConfiguration Role = "Configuration"
	RoleCredential    Role = "Credential"
	RoleCertificate   Role = "Certificate"
)

// File is a file that must exist.
type File struct {
	// Path of the file. Its directory is made when it is missing.
	Path string `json:"path"`
	// Role says what the file is for.
	Role Role `json:"role"`
	// Source says where the content comes from.
	Source Source `json:"source"`
	// Digest is that of the content: "sha256:" and 64 hexadecimal digits. That of a
	// secret content is "hmac-sha256:" and as many digits: its key stays with
	// whoever made the document, so contents cannot be guessed and compared.
	Digest string `json:"digest"`
	Access Access `json:"access,omitempty"`
	// OnChange is what follows when the content changes.
	OnChange OnChange `json:"onChange"`
	// Format says how the content is compared with the one before, where a change may cost less than
	// OnChange says. Empty: it is not compared.
	Format Format `json:"format,omitempty"`
	// UntilFile is a path: once that file exists, this one is removed, as a bootstrap
	// credential is when the host has one of its own. If it is the client certificate of the
	// document, it also has to be good; and this file is written in any case, so that its
	// services are restarted once with each content. Empty: the file stays.
	UntilFile string `json:"untilFile,omitempty"`
	// AfterService is the service that has to run before the file can be written,
	// because it makes what the values of variables are taken from. Empty: the file is
	// written before any service is started.
	AfterService string `json:"afterService,omitempty"`
	// Waiting and Network are as in [Service].
	Waiting bool   `json:"waiting,omitempty"`
	Network string `json:"network,omitempty"`
}

// Format is what the content of a file is, for who compares it.
type Format string

// FormatKubelet is a KubeletConfiguration in JSON. A change by which pods get no less than before costs
// [ImpactRestart] at most: the kubelet admits all pods again that it ran.
const FormatKubelet Format = "KubeletConfiguration"

// Source says where the content of a file comes from. Exactly one of Payload, Text
// and Secret is set.
type Source struct {
	// Payload is the name of a file of the payload, which is transferred by digest.
	Payload string `json:"payload,omitempty"`
	// Size of the file of the payload in bytes.
	Size int64 `json:"size,omitempty"`
	// URL is where the host gets the file of the payload from. Empty: it is sent.
	URL string `json:"url,omitempty"`
	// Text is the content itself. It may be empty.
	Text *string `json:"text,omitempty"`
	// Expand says that $(NAME) in Text stands for the value of a variable. The digest
	// is that of Text as it stands here.
	Expand bool `json:"expand,omitempty"`
	// Secret names the content among the secrets of the bundle.
	Secret string `json:"secret,omitempty"`
}

// EnvironmentVariable is a variable of the machine. The value is Value, or else the
// secret that Secret names.
type EnvironmentVariable struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	// Secret names the value among the secrets of the bundle: a proxy may have a
	// password in its address.
	Secret string `json:"secret,omitempty"`
	// Digest is that of a secret value, as in [File].
	Digest   string   `json:"digest,omitempty"`
	OnChange OnChange `json:"onChange"`
}

// StoreRoot is the store of the machine for authorities that it trusts.
const StoreRoot = "Root"

// Certificate must be in a certificate store of the machine.
type Certificate struct {
	// Store is the name of the store; [StoreRoot] is the only one that is supported.
	Store string `json:"store"`
	// Fingerprint is the SHA-256 of the certificate in hexadecimal digits.
	Fingerprint string `json:"fingerprint"`
	// Subject is whom the certificate is for, for people.
	Subject string `json:"subject,omitempty"`
	// PEM is the certificate.
	PEM      string   `json:"pem"`
	OnChange OnChange `json:"onChange"`
}

// FirewallRule lets connections in to a port, from everywhere and in every profile.
type FirewallRule struct {
	// Name identifies the rule.
	Name string `json:"name"`
	// DisplayName is what people see. Empty: Name.
	DisplayName string `json:"displayName,omitempty"`
	// Protocol is TCP or UDP.
	Protocol string `json:"protocol"`
	Port     uint16 `json:"port"`
}

// Protocols of firewall rules.
const (
	ProtocolTCP = "TCP"
	ProtocolUDP = "UDP"
)

// ClientCertificate says what the client certificate of the kubelet has to be like, which the
// kubelet obtains, renews and keeps itself.
type ClientCertificate struct {
	// Path of the file with the certificate and its key.
	Path string `json:"path"`
	// Kubeconfig is the path of the file by which the kubelet uses it, which it writes when it
	// joins a cluster.
	Kubeconfig string `json:"kubeconfig"`
	// CAFile is the path of the file of the document with the certificates that the API server
	// verifies its clients with, ServerCAFile of that with those that it is verified with.
	CAFile       string `json:"caFile"`
	ServerCAFile string `json:"serverCAFile"`
	// NodeName is the name of the node; $(NAME) stands for the value of a variable. Empty: that
	// of the host.
	NodeName string `json:"nodeName,omitempty"`
}

// HNS is what the Host Networking Service has to do with us.
type HNS struct {
	// Networks are made by the services of the document. They are removed with them,
	// in this order.
	Networks []string `json:"networks,omitempty"`
	// Foreign networks are made by other programs, if at all, and not removed. What the document has for one waits on the host until
	// it exists.
	Foreign []string `json:"foreign,omitempty"`
	// Endpoint is made when it is missing, and attached to the host itself. Nil: none.
	Endpoint *HNSEndpoint `json:"endpoint,omitempty"`
	// Waiting is as in [Service], for the networks and the endpoint.
	Waiting bool `json:"waiting,omitempty"`
	// Keep is the argument of a service whose value the networks keep. Nil: there is none.
	Keep *KeptArgument `json:"keep,omitempty"`
}

// KeptArgument is an argument of a service that makes networks of [HNS]: they keep its value for as long as they exist, also when the
// service has another one. So they are removed, with what is connected by them, when the service gets another value, and it makes them
// again.
type KeptArgument struct {
	// Service makes the networks.
	Service string `json:"service"`
	// Name of the argument. Its value is the next argument.
	Name string `json:"name"`
	// Default is what the service takes without the argument.
	Default string `json:"default"`
	// Programs hold containers, which are connected by the networks: they are ended. Paths.
	Programs []string `json:"programs,omitempty"`
	// OnChange is what follows when the networks are removed.
	OnChange OnChange `json:"onChange"`
}

// IsForeign says whether a network is made by other programs.
func (h *HNS) IsForeign(network string) bool {
	return h != nil && network != "" && slices.Contains(h.Foreign, network)
}

// has says whether there is such a network, whoever makes it.
func (h *HNS) has(network string) bool {
	return h != nil && (slices.Contains(h.Networks, network) || h.IsForeign(network))
}

// HNSEndpoint is an address of the host in a network of its containers.
type HNSEndpoint struct {
	Name string `json:"name"`
	// Network is one of the networks, or of the foreign ones.
	Network string `json:"network"`
	// Waiting is as in [Service].
	Waiting bool `json:"waiting,omitempty"`
}

// Component is a program and its version.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Files are the paths of its files.
	Files []string `json:"files,omitempty"`
}

// LogRotation says how one log is rotated. Its text is copied to files beside it, whose names
// have the time in UTC: of x.log to x-20060102-150405.log. Then the log is truncated, while
// the program keeps it open and appends to it.
type LogRotation struct {
	// Path of the log.
	Path string `json:"path"`
	// MaxBytes is how large the log may grow, about: the size is checked once a minute.
	// Zero: no limit.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// MaxAgeSeconds is how long rotated logs are kept. Zero: forever.
	MaxAgeSeconds int64 `json:"maxAgeSeconds,omitempty"`
}

// Text returns the content of a file of the document that is the same on every host.
func (d *Document) Text(path string) (content string, ok bool) {
	for _, f := range d.Files {
		if strings.EqualFold(f.Path, path) && f.Source.Text != nil && !f.Source.Expand {
			return *f.Source.Text, true
		}
	}
	return "", false
}
