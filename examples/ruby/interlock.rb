# frozen_string_literal: true

# A worker of an Interlock server, with nothing but Ruby's standard library.
#
# Rules that every client keeps:
# - A write has an Idempotency-Key and is sent again under the same key until an answer comes: the server carries it out once.
# - A lease is trusted only until `time of sending + lease`, by the worker's own clock, whatever happened to the answers.
# - A run that has lost its lease stops at once. Its later writes are refused with 410 anyway.

require "json"
require "net/http"
require "openssl"
require "securerandom"

module Interlock
  # What a server refused: a stable code, a sentence, a hint.
  class Problem < StandardError
    attr_reader :status, :code, :hint

    def initialize(status, said)
      super(said["detail"] || "The server answered #{status}.")
      @status, @code, @hint = status, said["code"], said["hint"]
    end
  end

  # The run is not the item's current one any more: stop, and touch nothing.
  class LeaseLost < StandardError; end
  # Somebody asked for the run to stop: give the item back.
  class CancelRequested < StandardError; end
  # The worker itself was asked to stop.
  class Stopping < StandardError; end
  # A request was not worth waiting for any longer.
  class GaveUp < StandardError; end

  def self.now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # Requests to one server. Threads share it; each request has a connection of its own.
  class Server
    AGAIN = [429, 502, 503, 504].freeze # the server, or a proxy before it, cannot serve just now
    AWAY = [SystemCallError, SocketError, IOError, Timeout::Error, OpenSSL::SSL::SSLError, Net::ProtocolError,
            Net::HTTPBadResponse].freeze
    ANSWER_S, CONNECT_S, PAUSE_MAX_S = 30, 10, 1.0

    def initialize(url, token)
      @url, @token = url.chomp("/"), token
    end

    # The answer to a write, which is carried out once however often it is sent. The block says whether to go on waiting.
    def post(path, body, wait_s: 0, &wanted)
      uri = URI("#{@url}/v1/#{path}")
      request = Net::HTTP::Post.new(uri, "Authorization" => "Bearer #{@token}", "Content-Type" => "application/json",
                                         "Idempotency-Key" => SecureRandom.uuid)
      request.body = JSON.generate(body)
      pause_s = 0.05
      loop do
        answer = send_once(uri, request, wait_s + ANSWER_S)
        return JSON.parse(answer.body) if answer.is_a?(Net::HTTPSuccess)
        raise refusal(answer) if answer && !AGAIN.include?(answer.code.to_i)

        raise GaveUp if wanted && !wanted.call

        sleep([answer && answer["Retry-After"].to_f, pause_s * rand(0.5..1.0)].compact.max)
        pause_s = [2 * pause_s, PAUSE_MAX_S].min
      end
    end

    private

    # The answer; nil if the server is away.
    def send_once(uri, request, timeout_s)
      Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https", open_timeout: CONNECT_S,
                                          read_timeout: timeout_s, max_retries: 0) { |http| http.request(request) }
    rescue *AWAY
      nil
    end

    def refusal(answer)
      said = begin
        JSON.parse(answer.body)
      rescue JSON::ParserError
        {} # not from the server itself
      end
      return LeaseLost.new(said["detail"]) if answer.code == "410"

      Problem.new(answer.code.to_i, said)
    end
  end

  # One run: it renews itself until it ends. `pause` and `check!` raise as soon as it must stop, and `on_stop` is called then.
  class Lease
    attr_reader :run, :fence, :item # `run` is the handle: a secret, so it goes into bodies only

    def initialize(server, given, sent_s)
      @server = server
      @run, @fence, @item = given.values_at("run", "fence", "item")
      @first, @seen = given["messages"], 0
      @lease_s, @renew_s = given.values_at("lease_s", "renew_within_s")
      @trusted_until_s = sent_s + given["waited_s"] + @lease_s # it began no earlier than that
      @lock, @changed = Mutex.new, ConditionVariable.new
      @reason, @ended, @on_stop = nil, false, []
      @beating = Thread.new { beat }
    end

    # Raise the reason if the run must stop.
    def check!
      @lock.synchronize { raise @reason if @reason }
    end

    # Wait this long, or until the run must stop.
    def pause(seconds)
      @lock.synchronize do
        until_s = Interlock.now_s + seconds
        while !@reason && (left_s = until_s - Interlock.now_s).positive?
          @changed.wait(@lock, left_s)
        end
        raise @reason if @reason
      end
    end

    # Call this the moment the run must stop: `lease.on_stop { Process.kill("TERM", pid) }`.
    def on_stop(&action)
      late = @lock.synchronize { @on_stop << action; @reason }
      action.call if late
    end

    # Messages that this run has not had yet. They count as read with the next call that reaches the server.
    def inbox
      check!
      found = @first
      found = @server.post("runs/inbox", { run: @run, seen: @seen }) { @reason.nil? }["messages"] if @seen.positive? || found.empty?
      @seen = [@seen, *found.map { |message| message["n"] }].max
      found
    rescue GaveUp
      check!
    end

    # Stop the run's work for this reason.
    def stop(reason)
      actions = @lock.synchronize do
        break [] if @reason || @ended

        @reason = reason
        @changed.broadcast
        @on_stop.dup
      end
      actions.each(&:call)
    end

    # End the run: "done", "fail" or "release". It is sent until the server has answered.
    def end_as(how, **more)
      drop
      @server.post("runs/#{how}", { reports: [{ run: @run, seen: @seen, **more }] })
    end

    # Renew no more, and report nothing.
    def drop
      @lock.synchronize do
        @ended = true
        @changed.broadcast
      end
      @beating.join # a renewal that came after the end would be a refused write
    end

    private

    def beat
      while wait_for_beat
        sent_s = Interlock.now_s
        until_s = @trusted_until_s - @lease_s / 10 # the rest is for stopping
        answer = Timeout.timeout([until_s - sent_s, 0.001].max) do # 0 would be no limit
          @server.post("runs/renew", { reports: [{ run: @run, seen: @seen }] }) { !@ended }
        end
        @trusted_until_s = sent_s + @lease_s
        view = answer["runs"][0]
        stop(CancelRequested.new(view["item"]["cancel_reason"])) if view["cancel_requested"]
      end
    rescue Timeout::Error
      stop(LeaseLost.new("No renewal came through for as long as the lease is."))
    rescue GaveUp # it has ended
    rescue StandardError => e
      stop(e)
    end

    # False once the run has ended.
    def wait_for_beat
      @lock.synchronize do
        until_s = Interlock.now_s + @renew_s
        while !@ended && (left_s = until_s - Interlock.now_s).positive?
          @changed.wait(@lock, left_s)
        end
        !@ended
      end
    end
  end

  # Works for one agent until `stop`: claims, calls its block, reports what came of it. What the block returns is the run's result.
  class Worker
    def initialize(server, agent, lease_s: 60, wait_s: 30, worker: nil)
      @server, @agent, @lease_s, @wait_s, @worker = server, agent, lease_s, wait_s, worker
      @stopped, @lease, @claiming = false, nil, nil
    end

    # May be called from any thread, but not from a signal's handler: start a thread there.
    def stop
      @stopped = true
      @lease&.stop(Stopping.new)
      # A claim that is broken off here is offered again when its lease ends.
      @claiming&.kill
    end

    def work(&job)
      until @stopped
        sent_s = Interlock.now_s
        claim.each do |given|
          @lease = Lease.new(@server, given, sent_s)
          @lease.stop(Stopping.new) if @stopped
          one(@lease, job)
        end
      end
    end

    private

    def claim
      body = { agent: @agent, wait_s: @wait_s, lease_s: @lease_s, worker: @worker }
      @claiming = Thread.new { @server.post("claims", body, wait_s: @wait_s) { !@stopped }["leases"] }
      @claiming.report_on_exception = false
      @claiming.value || []
    rescue GaveUp
      []
    ensure
      @claiming = nil
    end

    def one(lease, job)
      id = lease.item["id"]
      puts "item #{id}: claimed as run #{lease.fence}, #{lease.item["title"]}"
      result = job.call(lease)
      lease.check!
      lease.end_as("done", result: result)
      puts "item #{id}: done"
    rescue LeaseLost => e
      lease.drop
      puts "item #{id}: lease lost, stopped. #{e.message}"
    rescue CancelRequested, Stopping
      give_back(lease, "release", "given back")
    rescue Problem
      raise # a wrong token, say: waiting does not mend it
    rescue StandardError => e
      give_back(lease, "fail", "failed. #{e.message}", error: "#{e.class}: #{e.message}")
    end

    def give_back(lease, how, words, **more)
      lease.end_as(how, **more)
      puts "item #{lease.item["id"]}: #{words}"
    rescue LeaseLost => e
      puts "item #{lease.item["id"]}: lease lost, not reported. #{e.message}"
    end
  end
end
