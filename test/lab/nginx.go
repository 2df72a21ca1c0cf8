package lab

import "time"

// Nginx starts an nginx that needs no disk, at a site of its own, and waits until it listens. root is the root file
// system that hack/nginx-root makes. text is a configuration with "daemon off".
func (l *Lab) Nginx(name, root, text string) (Site, *Server, error) {
	site, err := l.Site(name)
	if err != nil {
		return site, nil, err
	}
	files := Root{Dir: root, Tmpfs: []string{"/tmp"}, Files: map[string]string{"/tmp/nginx.conf": text}}
	server, err := l.Start(name, site, nil, files, "nginx", "-c", "/tmp/nginx.conf", "-e", "stderr")
	if err != nil {
		return site, nil, err
	}
	return site, server, l.Await(site, server, Port)
}

// Workers returns the server's worker processes, with the processor time that each has used.
func (s *Server) Workers() (map[int]time.Duration, error) { return s.Descendants("nginx: worker") }

// Used returns the processor time that processes used between two measurements: sum is the time of all processes, and
// most is the time of the process that used most.
func Used(before, after map[int]time.Duration) (sum, most time.Duration) {
	for pid, used := range after {
		sum += used - before[pid]
		most = max(most, used-before[pid])
	}
	return sum, most
}
